//! Groups of a Cognito user pool. The user id is the username in the pool; the groups have to exist.

use aws_sdk_cognitoidentityprovider::Client;
use aws_sdk_cognitoidentityprovider::config::http::HttpResponse;
use aws_sdk_cognitoidentityprovider::config::retry::RetryConfig;
use aws_sdk_cognitoidentityprovider::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use dues_events::UserId;
use std::error::Error;

use crate::entitlements::groups::{Directory, DirectoryError, GroupPage};
use crate::runtime::partial_retry::{is_throttling, may_pass};

/// Groups per page: Cognito's maximum.
const PAGE: i32 = 60;

/// A directory in Cognito.
#[derive(Debug, Clone)]
pub struct Cognito {
    client: Client,
    pool_id: String,
}

impl Cognito {
    /// The pool with that id. The client's own retries are disabled: they would bypass the rate limiter.
    #[must_use]
    pub fn new(client: &Client, pool_id: impl Into<String>) -> Self {
        let config = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(config), pool_id: pool_id.into() }
    }
}

impl Directory for Cognito {
    async fn groups_of(&self, user: &UserId, start: Option<&str>) -> Result<GroupPage, DirectoryError> {
        let request = self
            .client
            .admin_list_groups_for_user()
            .user_pool_id(&self.pool_id)
            .username(user.as_str())
            .limit(PAGE);
        let answer = request
            .set_next_token(start.map(str::to_owned))
            .send()
            .await
            .map_err(|error| failed(&error, None))?;
        let groups =
            answer.groups().iter().filter_map(|group| group.group_name()).map(str::to_owned).collect();
        Ok(GroupPage { groups, next: answer.next_token })
    }

    async fn add(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        let request = self
            .client
            .admin_add_user_to_group()
            .user_pool_id(&self.pool_id)
            .username(user.as_str())
            .group_name(group);
        request.send().await.map(drop).map_err(|error| failed(&error, Some(group)))
    }

    async fn remove(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        let request = self
            .client
            .admin_remove_user_from_group()
            .user_pool_id(&self.pool_id)
            .username(user.as_str())
            .group_name(group);
        request.send().await.map(drop).map_err(|error| failed(&error, Some(group)))
    }
}

/// Classifies an error by its code; `group` is the group of the request.
fn failed<E>(error: &SdkError<E, HttpResponse>, group: Option<&str>) -> DirectoryError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let text = text(error);
    match (error.code(), group) {
        (Some("UserNotFoundException"), _) => DirectoryError::NoSuchUser,
        (Some("ResourceNotFoundException"), Some(group)) if is_about_a_group(error.message()) => {
            DirectoryError::NoSuchGroup(group.to_owned())
        }
        (Some(code), _) if is_throttling(code) => DirectoryError::Throttled(text),
        (Some("InternalErrorException"), _) => DirectoryError::Unavailable(text),
        (Some(_) | None, _) if may_pass(error) => DirectoryError::Unavailable(text),
        (Some(_) | None, _) => DirectoryError::Refused(text),
    }
}

/// Whether a group is missing, not the pool. Both errors have the same code; only the message differs
/// (`Group not found.`).
fn is_about_a_group(message: Option<&str>) -> bool {
    message.is_some_and(|message| message.starts_with("Group "))
}

/// Cognito's error, or why there was no response.
fn text<E>(error: &SdkError<E, HttpResponse>) -> String
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    match error.code() {
        Some(code) => format!("{code}: {}", error.message().unwrap_or("no message")),
        None => DisplayErrorContext(error).to_string(),
    }
}
