//! The projector: groups that follow profiles, removed balances, Lambda batches, crashes, races, and Cognito
//! on ministack.

mod balance;
mod batch;
mod cognito;
mod crash;
mod groups;
mod parking;
mod race;
mod wire;

use dues_events::{GroupsEffect, Item, UserId};
use dues_processors::Outcome;
use dues_processors::entitlements::groups::{
    Directory, DirectoryError, GroupPage, LocalDirectory, RateLimiter,
};
use dues_processors::projector::Projector;
use dues_processors::runtime::changes::Change;
use dues_store::table::GG_CORE;
use dues_store::{Condition, Engine, Key};
use dues_tests::aws::cognito_pool::{ada, sorted};
use dues_tests::fixtures::company::{clock, store, t};
use std::sync::{Arc, Mutex};

/// The error to return for a call instead of performing it, if any.
type Hook = Arc<dyn Fn(&str, &UserId) -> Option<DirectoryError> + Send + Sync>;

/// A directory that records every call, and refuses some.
#[derive(Clone)]
struct Watched<D> {
    inner: D,
    hook: Hook,
    calls: Arc<Mutex<Vec<String>>>,
}

impl<D: Directory> Watched<D> {
    fn new(inner: D, hook: impl Fn(&str, &UserId) -> Option<DirectoryError> + Send + Sync + 'static) -> Self {
        Self { inner, hook: Arc::new(hook), calls: Arc::default() }
    }

    /// The calls since the last look.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    fn record_call(&self, call: &str, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.calls.lock().unwrap().push(format!("{call} {group}").trim_end().to_owned());
        (self.hook)(call, user).map_or(Ok(()), Err)
    }
}

impl<D: Directory> Directory for Watched<D> {
    async fn groups_of(&self, user: &UserId, start: Option<&str>) -> Result<GroupPage, DirectoryError> {
        self.record_call("list", user, "")?;
        self.inner.groups_of(user, start).await
    }

    async fn add(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.record_call("add", user, group)?;
        self.inner.add(user, group).await
    }

    async fn remove(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.record_call("remove", user, group)?;
        self.inner.remove(user, group).await
    }
}

type Local<E> = Watched<LocalDirectory<E>>;

/// A projector over groups in a table.
fn projector<E: Engine>(
    engine: &E,
    hook: impl Fn(&str, &UserId) -> Option<DirectoryError> + Send + Sync + 'static,
) -> Projector<E, Local<E>> {
    over(engine, Watched::new(LocalDirectory::new(engine.clone()), hook))
}

/// A projector over that directory, without a rate limit.
fn over<E: Engine, D: Directory>(engine: &E, directory: D) -> Projector<E, D> {
    Projector {
        limiter: RateLimiter::unlimited(clock()),
        ..Projector::new(store(engine.clone()), Some(directory))
    }
}

/// A hook that refuses nothing.
fn accepts_all(_: &str, _: &UserId) -> Option<DirectoryError> {
    None
}

fn key(user: &UserId, sort: String) -> Key {
    Key { partition: format!("USER#{user}"), sort: Some(sort) }
}

/// A profile as another service may write it.
fn profile(user: &UserId, tier: &str, provider: &str) -> Item {
    let mut item = Item::new();
    for (name, text) in [
        ("PK", format!("USER#{user}")),
        ("SK", format!("PROFILE#{user}")),
        ("tier", tier.into()),
        ("provider", provider.into()),
    ] {
        item.set_text(name, text);
    }
    item.set_text("displayName", "Ada");
    item
}

/// Writes a profile, and returns the change that the stream delivers.
async fn save<E: Engine>(engine: &E, user: &UserId, tier: &str, provider: &str, sequence: &str) -> Change {
    let old = engine.get(&GG_CORE, key(user, format!("PROFILE#{user}"))).await.unwrap();
    let new = profile(user, tier, provider);
    engine.put(&GG_CORE, new.clone(), Condition::Always).await.unwrap();
    change(old, Some(new), sequence)
}

fn change(old: Option<Item>, new: Option<Item>, sequence: &str) -> Change {
    Change {
        sequence: sequence.to_owned(),
        table: &GG_CORE,
        old,
        new,
        arrived: t("2026-03-01T00:00:00Z"),
        by_ttl: false,
    }
}

/// Delivers one change, and returns its outcome.
async fn project_one<E: Engine, D: Directory>(projector: &Projector<E, D>, change: &Change) -> Outcome {
    let [outcome] =
        <[Outcome; 1]>::try_from(projector.project(std::slice::from_ref(change)).await.outcomes).unwrap();
    outcome
}

async fn effect<E: Engine>(engine: &E, user: &UserId) -> Option<GroupsEffect> {
    let row = engine.get(&GG_CORE, key(user, "EFFECT#GROUPS".into())).await.unwrap();
    row.map(|row| GroupsEffect::from_item(row).unwrap())
}

/// A user's groups in the table.
async fn local_groups<E: Engine>(engine: &E, user: &UserId) -> Vec<String> {
    sorted(&LocalDirectory::new(engine.clone()), user).await
}

/// The parked records: stream, code, user and body.
async fn parked<E: Engine>(engine: &E) -> Vec<(String, String, Option<String>, String)> {
    let all = store(engine.clone()).parked().await.unwrap();
    all.into_iter().map(|p| (p.stream, p.code, p.user_id, String::from_utf8(p.body).unwrap())).collect()
}
