//! Groups in a table of the store, for the local program.

use dues_events::{Item, UserId};
use dues_store::table::GROUPS;
use dues_store::{Condition, Engine, Key, Query, StoreError};

use super::{Directory, DirectoryError, GroupPage};

/// A directory in the store: every user and every group exists.
#[derive(Debug, Clone)]
pub struct LocalDirectory<E> {
    engine: E,
}

impl<E: Engine> LocalDirectory<E> {
    /// A directory over that engine.
    pub fn new(engine: E) -> Self {
        Self { engine }
    }
}

/// The sort key of the table.
const GROUP: &str = "group";

impl<E: Engine> Directory for LocalDirectory<E> {
    /// All groups on one page.
    async fn groups_of(&self, user: &UserId, _start: Option<&str>) -> Result<GroupPage, DirectoryError> {
        let mut groups = Vec::new();
        let mut query = Query::partition(&GROUPS, user.as_str());
        loop {
            let page = self.engine.query(query.clone()).await?;
            groups.extend(page.items.iter().filter_map(|row| row.text(GROUP)).map(str::to_owned));
            match page.next {
                Some(next) => query.start = Some(next),
                None => return Ok(GroupPage { groups, next: None }),
            }
        }
    }

    async fn add(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        let mut row = Item::new();
        row.set_text(GROUPS.partition, user.as_str());
        row.set_text(GROUP, group);
        self.engine.put(&GROUPS, row, Condition::Always).await?;
        Ok(())
    }

    async fn remove(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        let key = Key { partition: user.as_str().to_owned(), sort: Some(group.to_owned()) };
        self.engine.delete(&GROUPS, key, Condition::Always).await?;
        Ok(())
    }
}

impl From<StoreError> for DirectoryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Throttled(cause) => Self::Throttled(cause),
            StoreError::Unavailable(_) | StoreError::Contended(_) | StoreError::Conflict(_) => {
                Self::Unavailable(error.to_string())
            }
            StoreError::Invalid(_) | StoreError::Unreadable(_) => Self::Refused(error.to_string()),
        }
    }
}
