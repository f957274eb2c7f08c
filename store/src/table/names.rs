//! The names of the tables in a deployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ALL, Table, TableId};

/// Other names for some tables, by their own names: a deployment may use existing tables. Clones share the
/// map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableNames(Arc<BTreeMap<TableId, String>>);

impl TableNames {
    /// The name of a table in the deployment.
    #[must_use]
    pub fn name(&self, table: &Table) -> &str {
        self.0.get(&table.id).map_or(table.name, String::as_str)
    }

    /// The table with that name in the deployment.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&'static Table> {
        ALL.into_iter().find(|table| self.name(table) == name)
    }
}

impl From<BTreeMap<TableId, String>> for TableNames {
    fn from(names: BTreeMap<TableId, String>) -> Self {
        Self(Arc::new(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{BILLING_ACTIVITY, GG_CORE};

    #[test]
    fn a_table_is_found_by_what_the_deployment_calls_it() {
        let own = TableNames::default();
        assert_eq!(
            (own.name(&GG_CORE), own.table("gg_core"), own.table("guild")),
            ("gg_core", Some(&GG_CORE), None)
        );
        let names = TableNames::from(BTreeMap::from([(TableId::GgCore, "guild".to_owned())]));
        assert_eq!((names.name(&GG_CORE), names.name(&BILLING_ACTIVITY)), ("guild", "billing-activity"));
        assert_eq!(
            (names.table("guild"), names.table("gg_core")),
            (Some(&GG_CORE), None),
            "its own name is another table's there"
        );
        assert_eq!(names.table("billing-activity"), Some(&BILLING_ACTIVITY));
    }
}
