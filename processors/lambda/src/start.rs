//! Starting a function: its settings are read and checked, its clients made, and what is left is a plain function of an event.

use dues_processors::api::Api;
use dues_processors::bus::eventbridge::EventBridge;
use dues_processors::groups::cognito::Cognito;
use dues_processors::inbox::kinesis::Kinesis;
use dues_processors::kinesis_feeder::KinesisFeeder;
use dues_processors::outbox::kinesis::Kinesis as Outbox;
use dues_processors::projector::Projector;
use dues_processors::queue::sqs::Sqs;
use dues_processors::webhook::{self, Secrets, Webhook};
use dues_processors::{Context, ach_handler, api, app_events, eventbridge, kinesis_feeder, memberships, projector, s3_events, sqs, stripe};
use dues_store::dynamo::Dynamo;
use dues_store::{Locks, SharedClock, Store, TableNames};
use futures::future::{BoxFuture, FutureExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

use crate::clients::Clients;
use crate::collecting::Collecting;
use crate::env::{BUS, Env, INBOX, POOL, QUEUE, STRIPE_SECRET, SUBSCRIPTIONS, Unset};
use crate::function::Function;
use crate::secret::Secret;

/// An invocation failed: Lambda delivers the event again, or tells the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

impl Failed {
    pub(crate) fn of(why: impl std::fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// A function that has been started.
pub type Handle = Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, Failed>> + Send + Sync>;

/// Starts a function.
///
/// # Errors
/// [`Unset`] names the variable that is missing or wrong.
pub fn start(function: Function, env: &Env, clients: &Clients, clock: SharedClock) -> Result<Handle, Unset> {
    // Only what a function needs is made: the door has no table, and no right to any.
    let store = || clients.dynamo(env).map(|engine| Store::new(engine, clock.clone()));
    let context = || store().map(Context::new);
    let telling = || Ok(Context { read_models: env.read_models()?, ..context()? });
    let collecting = || Collecting::new(env, clients, store()?);
    Ok(match function {
        Function::AchHandler => handle(context()?, |context, batch| async move { Ok(ach_handler::ach_handler(&context, batch).await) }),
        Function::Memberships => handle(context()?, |context, batch| async move { Ok(memberships::memberships(&context, batch).await) }),
        Function::Stripe => handle(Door::new(env, clients, clock)?, |door, knock| async move { door.open(knock).await }),
        Function::StripeWorker => handle(context()?, |context, batch| async move { Ok(stripe::stripe(&context, batch).await) }),
        Function::Projector => {
            handle(following(env, clients, store()?)?, |following, batch| async move { Ok(projector::projector(&following, batch).await) })
        }
        Function::CollectionsJob => {
            let queue = Sqs::new(clients.sqs(), env.need(QUEUE)?, clock.clone());
            handle((store()?, env.rules()?, queue), |job, input| async move {
                let (store, rules, queue) = &*job;
                eventbridge::collections_job(store, rules, queue, input).await.map_err(Failed::of)
            })
        }
        Function::CollectionsWorker => {
            handle(
                collecting()?,
                |collecting, batch| async move { Ok(sqs::collections_worker(&collecting.collector().await?, batch).await) },
            )
        }
        Function::WebhookWorker => handle(collecting()?, |collecting, event| async move {
            eventbridge::webhook_worker(&collecting.collector().await?, event).await.map_err(Failed::of)
        }),
        Function::WebhookBalanceWorker => handle(collecting()?, |collecting, event| async move {
            eventbridge::webhook_balance_worker(&collecting.collector().await?, event).await.map_err(Failed::of)
        }),
        Function::BatchWorker => {
            handle(collecting()?, |collecting, batch| async move { Ok(sqs::batch_worker(&collecting.collector().await?, batch).await) })
        }
        Function::NotifierScheduler => {
            let (store, bus) = (store()?, EventBridge::new(clients.eventbridge(), env.need(BUS)?, clock.clone()));
            let locks = Locks::new(store.engine.clone(), clock.clone());
            handle((store, locks, env.rules()?, bus), |notifier, tick| async move {
                let (store, locks, rules, bus) = &*notifier;
                eventbridge::notifier_scheduler(store, locks, rules, bus, tick).await.map_err(Failed::of)
            })
        }
        Function::KinesisFeeder => {
            handle(
                feeding(env, clients, store()?)?,
                |feeder, batch| async move { Ok(kinesis_feeder::kinesis_feeder(&feeder, batch).await) },
            )
        }
        Function::AppEvents => handle(telling()?, |context, batch| async move { Ok(app_events::app_events(&context, batch).await) }),
        Function::S3Events => {
            handle(telling()?, |context, event| async move { s3_events::s3_events(&context, event).await.map_err(Failed::of) })
        }
        Function::UsageReset => handle((store()?, env.read_models()?), |reset, tick| async move {
            let (store, models) = &*reset;
            eventbridge::usage_reset(store, models.usage(), tick).await.map_err(Failed::of)
        }),
        Function::Api => handle((collecting()?, env.read_models()?, env.tiers()?), |api, request| async move {
            let (collecting, models, tiers) = &*api;
            let api = Api { collector: collecting.collector().await?, read_models: models.clone(), tiers: tiers.clone() };
            Ok(api::http_api::http_api(&api, request).await)
        }),
    })
}

/// A function of typed events and answers as one of JSON. An event that is none of its kind fails, and says so.
fn handle<S, I, O, F>(state: S, run: impl Fn(Arc<S>, I) -> F + Copy + Send + Sync + 'static) -> Handle
where
    S: Send + Sync + 'static,
    I: DeserializeOwned + Send,
    O: Serialize,
    F: Future<Output = Result<O, Failed>> + Send,
{
    let state = Arc::new(state);
    Arc::new(move |event| {
        let state = state.clone();
        let answer = async move {
            let event = serde_json::from_value(event).map_err(|error| Failed(format!("the event: {error}")))?;
            let answer = run(state, event).await?;
            serde_json::to_value(answer).map_err(|error| Failed(format!("the answer: {error}")))
        };
        answer.boxed()
    })
}

/// The projector, with the pool's groups if there is a pool.
fn following(env: &Env, clients: &Clients, store: Store<Dynamo>) -> Result<Projector<Dynamo, Cognito>, Unset> {
    let directory = env.get(POOL).map(|pool| Cognito::new(&clients.cognito(), pool));
    let (tiers, tables) = (env.tiers()?, TableNames::from(env.table_names()));
    Ok(Projector { tiers, tables, read_models: env.read_models()?, ..Projector::new(store, directory) })
}

/// The feeder, with the stream and the bus that it tells on.
fn feeding(env: &Env, clients: &Clients, store: Store<Dynamo>) -> Result<KinesisFeeder<Dynamo, Outbox, EventBridge>, Unset> {
    let clock = store.clock.clone();
    let outbox = Outbox::new(&clients.kinesis(), env.need(SUBSCRIPTIONS)?, clock.clone());
    let bus = EventBridge::new(clients.eventbridge(), env.need(BUS)?, clock);
    Ok(KinesisFeeder { tables: TableNames::from(env.table_names()), ..KinesisFeeder::new(store, outbox, bus) })
}

/// The door that Stripe knocks on.
struct Door {
    inbox: Kinesis,
    secret: Secret,
    clock: SharedClock,
}

impl Door {
    fn new(env: &Env, clients: &Clients, clock: SharedClock) -> Result<Self, Unset> {
        let inbox = Kinesis::new(&clients.kinesis(), env.need(INBOX)?, clock.clone());
        Ok(Self { inbox, secret: clients.secret(env.need(STRIPE_SECRET)?, clock.clone()), clock })
    }

    /// Takes a request from API Gateway, or an event from the bus, which has a source.
    async fn open(&self, knock: Value) -> Result<Value, Failed> {
        let shape = |error: serde_json::Error| Failed(format!("the event: {error}"));
        let answer = if knock.get("requestContext").is_some() {
            let request = serde_json::from_value(knock).map_err(shape)?;
            let secrets = Secrets::read(&self.secret.value().await.map_err(Failed::of)?);
            let webhook = Webhook::new(self.inbox.clone(), secrets, self.clock.clone());
            serde_json::to_value(webhook::http_api(&webhook, request).await)
        } else {
            let event = serde_json::from_value(knock).map_err(shape)?;
            serde_json::to_value(webhook::partner::stripe_partner(&self.inbox, event).await.map_err(Failed::of)?)
        };
        answer.map_err(|error| Failed(format!("the answer: {error}")))
    }
}
