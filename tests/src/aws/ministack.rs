//! AWS in a separate process: the ministack that `cargo xtask test` started, or one for this process.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::OnceLock;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use xtask::ministack::Ministack;
use xtask::python::python_in;

use crate::engines::dynoxide::credentials;

/// A client for a new account, so that tests can run concurrently. It does not retry, like dynoxide's.
pub async fn client() -> Client {
    client_of(&new_account())
}

/// A client for an account: clients of the same account share its tables.
pub fn client_of(account: &str) -> Client {
    client_at(endpoint(), account)
}

/// A client at another ministack.
pub fn client_at(endpoint: &str, account: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .endpoint_url(endpoint)
        .credentials_provider(credentials(account))
        .retry_config(RetryConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

/// A new account id: twelve random digits, which ministack accepts as an access key.
pub fn new_account() -> String {
    // The only source of randomness in std: every `RandomState` has new keys, seeded by the system.
    let random = RandomState::new().hash_one(std::process::id());
    format!("{:012}", 100_000_000_000 + random % 900_000_000_000)
}

/// The endpoint of ministack: `http://127.0.0.1:PORT`.
pub fn endpoint() -> &'static str {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    ENDPOINT.get_or_init(|| match std::env::var("DUES_TEST_AWS") {
        Ok(endpoint) if !endpoint.is_empty() => endpoint,
        Ok(_) | Err(_) => own().endpoint(),
    })
}

/// This process's own ministack. Statics are never dropped, but ministack exits with its parent process.
fn own() -> &'static Ministack {
    static OWN: OnceLock<Ministack> = OnceLock::new();
    OWN.get_or_init(|| {
        let target = target_with_python();
        match Ministack::start(&python_in(&target), &target.join("ministack-of-tests.log")) {
            Ok(started) => started,
            Err(failure) => panic!("{failure}"),
        }
    })
}

/// A separate ministack, for tests that need their own settings or account.
pub fn alone(name: &str, settings: &[(&str, &str)]) -> Ministack {
    let target = target_with_python();
    match Ministack::start_with(&python_in(&target), &target.join(format!("ministack-{name}.log")), settings)
    {
        Ok(started) => started,
        Err(failure) => panic!("{failure}"),
    }
}

/// The Python that `cargo xtask test` installed in the target directory, with ministack and Stripe's
/// library.
pub fn python() -> PathBuf {
    python_in(&target_with_python())
}

/// The target directory that this test was built in.
pub(crate) fn target_with_python() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    match test.ancestors().find(|folder| python_in(folder).exists()) {
        Some(target) => target.to_path_buf(),
        None => panic!(
            "Python's environment is not there: run `cargo xtask test`, which installs what the tests need"
        ),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::operation::put_item::PutItemError;
    use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};

    use super::*;
    use crate::engines::small_table::{create, put, text};

    #[tokio::test]
    async fn a_condition_that_fails_gives_back_the_item_that_is_there() {
        let client = client().await;
        create(&client, "people").await;
        put(&client, "people", "ada", 1).await;
        let refused = client
            .put_item()
            .table_name("people")
            .item("pk", text("ada"))
            .item("sk", AttributeValue::N("1".into()))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await
            .unwrap_err()
            .into_service_error();
        let PutItemError::ConditionalCheckFailedException(failed) = refused else { panic!("{refused:?}") };
        assert_eq!(failed.item().unwrap()["group"], text("all"));
    }

    #[tokio::test]
    async fn each_client_has_an_account_of_its_own() {
        let (one, other) = (client().await, client().await);
        create(&one, "people").await;
        assert_eq!(one.list_tables().send().await.unwrap().table_names(), ["people"]);
        assert!(other.list_tables().send().await.unwrap().table_names().is_empty());
    }

    #[test]
    fn an_account_is_twelve_digits() {
        let account = new_account();
        assert!(account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit()), "{account}");
        assert_ne!(account, new_account());
    }
}
