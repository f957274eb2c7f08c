//! Secrets in Secrets Manager: read once, cached for a while, and the cached value stays in use when a
//! refresh fails.

use dues_lambda::secret::{FRESH, Secret};
use dues_tests::aws::ministack::new_account;
use dues_tests::aws::recording_proxy::{Meddler, Mischief};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::t;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[tokio::test]
async fn a_secret_is_read_once_and_again_when_it_has_grown_old() {
    let (account, broken) = (new_account(), Arc::new(AtomicBool::new(false)));
    let hook = broken.clone();
    let meddler = Meddler::new(move |_| {
        if hook.load(Ordering::Relaxed) {
            Mischief::Refuse(400, "AccessDeniedException")
        } else {
            Mischief::None
        }
    });
    let aws = meddler.secrets(&account);
    let arn = aws.create_secret().name("token").secret_string(" one\n").send().await.unwrap().arn.unwrap();
    let clock = TestClock::manual(t("2026-03-01T00:00:00Z"));
    let secret = Secret::new(aws.clone(), arn.clone(), clock.shared());
    let asked = || meddler.asked().len();

    assert_eq!(
        (&*secret.value().await.unwrap(), &*secret.clone().value().await.unwrap(), asked()),
        ("one", "one", 1)
    );
    aws.put_secret_value().secret_id(&arn).secret_string("two").send().await.unwrap();
    assert_eq!((&*secret.value().await.unwrap(), asked()), ("one", 1), "kept");
    clock.advance(FRESH);
    assert_eq!((&*secret.value().await.unwrap(), asked()), ("two", 2));

    broken.store(true, Ordering::Relaxed);
    clock.advance(FRESH);
    assert_eq!(
        (&*secret.value().await.unwrap(), &*secret.value().await.unwrap(), asked()),
        ("two", "two", 3),
        "an old one is better than none"
    );
    clock.advance(Duration::from_secs(30));
    assert_eq!((&*secret.value().await.unwrap(), asked()), ("two", 4), "it is tried again soon");

    let never = Secret::new(aws, arn.clone(), clock.shared()).value().await.unwrap_err();
    assert!(
        never.to_string().starts_with(&format!("secret {arn}: ")) && never.why.contains("AccessDenied"),
        "{never}"
    );
}
