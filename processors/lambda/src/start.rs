//! Starts a function: reads and checks its settings, creates its clients, and returns a plain function of an
//! event.

use dues_processors::api::{self, Api};
use dues_processors::aws::clients::cognito_groups::Cognito;
use dues_processors::aws::clients::eventbridge_bus::EventBridge;
use dues_processors::aws::clients::kinesis_inbox::Kinesis;
use dues_processors::aws::clients::kinesis_outbox::Kinesis as Outbox;
use dues_processors::aws::clients::sqs_queue::Sqs;
use dues_processors::aws::triggers::{eventbridge, http_api, sqs};
use dues_processors::billing::feeder::KinesisFeeder;
use dues_processors::billing::{ach_handler, feeder, memberships};
use dues_processors::entitlements::stripe_webhook;
use dues_processors::entitlements::stripe_webhook::{Secrets, Webhook};
use dues_processors::entitlements::stripe_worker;
use dues_processors::projector::Projector;
use dues_processors::read_models::app_events;
use dues_processors::serenya::s3_events;
use dues_processors::{Context, projector};
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

/// An invocation failed: Lambda redelivers the event, or reports the error to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

impl Failed {
    pub(crate) fn of(why: impl std::fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// A started function.
pub type Handle = Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, Failed>> + Send + Sync>;

/// Starts a function.
///
/// # Errors
/// [`Unset`] names the variable that is missing or wrong.
pub fn start(function: Function, env: &Env, clients: &Clients, clock: SharedClock) -> Result<Handle, Unset> {
    // Create only what a function needs: the Stripe webhook has no table, and no permission for any.
    let store = || clients.dynamo(env).map(|engine| Store::new(engine, clock.clone()));
    let context = || store().map(Context::new);
    let recording = || Ok(Context { read_models: env.read_models()?, ..context()? });
    let collecting = || Collecting::new(env, clients, store()?);
    Ok(match function {
        Function::AchHandler => {
            handle(
                context()?,
                |context, batch| async move { Ok(ach_handler::ach_handler(&context, batch).await) },
            )
        }
        Function::Memberships => {
            handle(
                context()?,
                |context, batch| async move { Ok(memberships::memberships(&context, batch).await) },
            )
        }
        Function::StripeWebhook => {
            handle(StripeWebhook::new(env, clients, clock)?, |webhook, event| async move {
                webhook.handle(event).await
            })
        }
        Function::StripeWorker => handle(context()?, |context, batch| async move {
            Ok(stripe_worker::stripe_worker(&context, batch).await)
        }),
        Function::Projector => handle(following(env, clients, store()?)?, |following, batch| async move {
            Ok(projector::projector(&following, batch).await)
        }),
        Function::CollectionsJob => {
            let queue = Sqs::new(clients.sqs(), env.need(QUEUE)?, clock.clone());
            handle((store()?, env.rules()?, queue), |job, input| async move {
                let (store, rules, queue) = &*job;
                eventbridge::collections_job(store, rules, queue, input).await.map_err(Failed::of)
            })
        }
        Function::CollectionsWorker => handle(collecting()?, |collecting, batch| async move {
            Ok(sqs::collections_worker(&collecting.collector().await?, batch).await)
        }),
        Function::WebhookWorker => handle(collecting()?, |collecting, event| async move {
            eventbridge::webhook_worker(&collecting.collector().await?, event).await.map_err(Failed::of)
        }),
        Function::WebhookBalanceWorker => handle(collecting()?, |collecting, event| async move {
            eventbridge::webhook_balance_worker(&collecting.collector().await?, event)
                .await
                .map_err(Failed::of)
        }),
        Function::BatchWorker => handle(collecting()?, |collecting, batch| async move {
            Ok(sqs::batch_worker(&collecting.collector().await?, batch).await)
        }),
        Function::NotifierScheduler => {
            let (store, bus) =
                (store()?, EventBridge::new(clients.eventbridge(), env.need(BUS)?, clock.clone()));
            let locks = Locks::new(store.engine.clone(), clock.clone());
            handle((store, locks, env.rules()?, bus), |notifier, tick| async move {
                let (store, locks, rules, bus) = &*notifier;
                eventbridge::notifier_scheduler(store, locks, rules, bus, tick).await.map_err(Failed::of)
            })
        }
        Function::Sweep => handle(store()?, |store, tick| async move {
            eventbridge::sweep(&store, tick).await.map_err(Failed::of)
        }),
        Function::EntitlementClock => handle((store()?, env.tiers()?), |clock, tick| async move {
            let (store, tiers) = &*clock;
            eventbridge::entitlement_clock(store, tiers, tick).await.map_err(Failed)
        }),
        Function::KinesisFeeder => handle(feeding(env, clients, store()?)?, |feeder, batch| async move {
            Ok(feeder::kinesis_feeder(&feeder, batch).await)
        }),
        Function::AppEvents => {
            handle(
                recording()?,
                |context, batch| async move { Ok(app_events::app_events(&context, batch).await) },
            )
        }
        Function::S3Events => handle(recording()?, |context, event| async move {
            s3_events::s3_events(&context, event).await.map_err(Failed::of)
        }),
        Function::UsageReset => handle((store()?, env.read_models()?), |reset, tick| async move {
            let (store, models) = &*reset;
            eventbridge::usage_reset(store, models.usage(), tick).await.map_err(Failed::of)
        }),
        Function::Api => {
            handle((collecting()?, env.read_models()?, env.tiers()?), |api, request| async move {
                let (collecting, models, tiers) = &*api;
                let collector = collecting.collector().await?;
                let api = Api { collector, read_models: models.clone(), tiers: tiers.clone() };
                Ok(http_api::http_api(&api::router(api), request).await)
            })
        }
    })
}

/// Wraps a function of typed events and results as one of JSON. An event of the wrong shape fails with the
/// reason.
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
            let event =
                serde_json::from_value(event).map_err(|error| Failed(format!("the event: {error}")))?;
            let answer = run(state, event).await?;
            serde_json::to_value(answer).map_err(|error| Failed(format!("the answer: {error}")))
        };
        answer.boxed()
    })
}

/// The projector, with the user pool's groups if a pool is configured.
fn following(
    env: &Env,
    clients: &Clients,
    store: Store<Dynamo>,
) -> Result<Projector<Dynamo, Cognito>, Unset> {
    let directory = env.get(POOL).map(|pool| Cognito::new(&clients.cognito(), pool));
    let (tiers, tables) = (env.tiers()?, TableNames::from(env.table_names()));
    Ok(Projector { tiers, tables, read_models: env.read_models()?, ..Projector::new(store, directory) })
}

/// The feeder, with the stream and the bus that it publishes to.
fn feeding(
    env: &Env,
    clients: &Clients,
    store: Store<Dynamo>,
) -> Result<KinesisFeeder<Dynamo, Outbox, EventBridge>, Unset> {
    let clock = store.clock.clone();
    let outbox = Outbox::new(&clients.kinesis(), env.need(SUBSCRIPTIONS)?, clock.clone());
    let bus = EventBridge::new(clients.eventbridge(), env.need(BUS)?, clock);
    Ok(KinesisFeeder {
        tables: TableNames::from(env.table_names()),
        ..KinesisFeeder::new(store, outbox, bus)
    })
}

/// The Stripe webhook: persists events in the inbox.
struct StripeWebhook {
    inbox: Kinesis,
    secret: Secret,
    clock: SharedClock,
}

impl StripeWebhook {
    fn new(env: &Env, clients: &Clients, clock: SharedClock) -> Result<Self, Unset> {
        let inbox = Kinesis::new(&clients.kinesis(), env.need(INBOX)?, clock.clone());
        Ok(Self { inbox, secret: clients.secret(env.need(STRIPE_SECRET)?, clock.clone()), clock })
    }

    /// Accepts a request from API Gateway, or a partner event from the bus. Only the former has a
    /// `requestContext`.
    async fn handle(&self, event: Value) -> Result<Value, Failed> {
        let shape = |error: serde_json::Error| Failed(format!("the event: {error}"));
        let answer = if event.get("requestContext").is_some() {
            let request = serde_json::from_value(event).map_err(shape)?;
            let secrets = Secrets::read(&self.secret.value().await.map_err(Failed::of)?);
            let webhook = Webhook::new(self.inbox.clone(), secrets, self.clock.clone());
            serde_json::to_value(stripe_webhook::http_api(&webhook, request).await)
        } else {
            let event = serde_json::from_value(event).map_err(shape)?;
            serde_json::to_value(
                stripe_webhook::partner::stripe_partner(&self.inbox, event).await.map_err(Failed::of)?,
            )
        };
        answer.map_err(|error| Failed(format!("the answer: {error}")))
    }
}
