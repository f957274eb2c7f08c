//! Read models: which ones a deployment runs, and how facts reach them.
//!
//! Facts have three sources: applications' own events (the stream `app-events`, or the API), Stripe events
//! once their user is known, and changes of billing records. A fact, the state that it is merged into and
//! the rows that differ are booked in one transaction, see [`journal_commit`].

pub mod app_events;
pub mod journal_commit;

use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{EventId, Record, Time, UserId};
use dues_projections::figureforge::Figureforge;
use dues_projections::model::{Model, Recorded};
use dues_projections::serenya::Serenya;
use dues_projections::serenya::tiers::Settings as SerenyaSettings;
use dues_projections::usage::Usage;
use dues_store::{Engine, Store, StoreError};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::outcome::FactOutcome;
use crate::runtime::lanes::Outcome;
use journal_commit::record_facts;

/// A read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadModel {
    /// Plans and daily limits: `usage`.
    Usage,
    /// Images, jobs, reports and plans: `figureforge`.
    Figureforge,
    /// Profiles, payments and document jobs: `serenya`.
    Serenya,
}

impl ReadModel {
    /// All read models.
    pub const ALL: [Self; 3] = [Self::Usage, Self::Figureforge, Self::Serenya];

    /// The name in a deployment's configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Usage => Usage::NAME,
            Self::Figureforge => Figureforge::NAME,
            Self::Serenya => Serenya::NAME,
        }
    }

    /// The read model with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.name() == name)
    }
}

/// Configures a deployment without read models.
const NONE: &str = "none";

/// The read models of a deployment, with their settings. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadModels(Arc<Chosen>);

/// The selected read models, and the settings of each.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chosen {
    models: BTreeSet<ReadModel>,
    usage: crate::usage::Settings,
    figureforge: crate::figureforge::Settings,
    serenya: SerenyaSettings,
}

/// All read models.
impl Default for ReadModels {
    fn default() -> Self {
        ReadModel::ALL.into_iter().collect()
    }
}

impl FromIterator<ReadModel> for ReadModels {
    fn from_iter<I: IntoIterator<Item = ReadModel>>(models: I) -> Self {
        Self(Arc::new(Chosen {
            models: models.into_iter().collect(),
            usage: crate::usage::Settings::default(),
            figureforge: crate::figureforge::Settings::default(),
            serenya: SerenyaSettings::default(),
        }))
    }
}

impl ReadModels {
    /// The environment variable that lists them.
    pub const VARIABLE: &'static str = "DUES_READ_MODELS";

    /// Parses `usage,serenya`. An empty text selects none; so does `none`, because many tools treat an
    /// empty variable as unset.
    ///
    /// # Errors
    /// Names the unknown read model.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = if text.trim() == NONE { "" } else { text };
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let read = |name: &str| {
            let known = || ReadModel::ALL.map(ReadModel::name).join(", ");
            ReadModel::named(name)
                .ok_or_else(|| format!("{}: {name:?} is not one of {}", Self::VARIABLE, known()))
        };
        names.map(read).collect()
    }

    /// Whether the deployment runs that read model.
    #[must_use]
    pub fn has(&self, model: ReadModel) -> bool {
        self.0.models.contains(&model)
    }

    /// The deployment's read models.
    pub fn iter(&self) -> impl Iterator<Item = ReadModel> + '_ {
        self.0.models.iter().copied()
    }

    /// Replaces the settings of `usage`.
    #[must_use]
    pub fn with_usage(mut self, usage: crate::usage::Settings) -> Self {
        Arc::make_mut(&mut self.0).usage = usage;
        self
    }

    /// The settings of `usage`.
    #[must_use]
    pub fn usage(&self) -> &crate::usage::Settings {
        &self.0.usage
    }

    /// Replaces the settings of `serenya`.
    #[must_use]
    pub fn with_serenya(mut self, settings: SerenyaSettings) -> Self {
        Arc::make_mut(&mut self.0).serenya = settings;
        self
    }

    /// The settings of `serenya`.
    #[must_use]
    pub fn serenya(&self) -> &SerenyaSettings {
        &self.0.serenya
    }

    /// Replaces the settings of `figureforge`.
    #[must_use]
    pub fn with_figureforge(mut self, settings: crate::figureforge::Settings) -> Self {
        Arc::make_mut(&mut self.0).figureforge = settings;
        self
    }

    /// The settings of `figureforge`.
    #[must_use]
    pub fn figureforge(&self) -> &crate::figureforge::Settings {
        &self.0.figureforge
    }

    /// Records a Stripe event of a user in each read model.
    ///
    /// # Errors
    /// Any [`StoreError`]. A retry is safe: models that have recorded the event report a duplicate.
    pub async fn stripe<E: Engine>(
        &self,
        store: &Store<E>,
        user: &UserId,
        event: &StripeEvent,
    ) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::Skipped;
        for model in self.iter() {
            let booked = match model {
                ReadModel::Usage => crate::usage::stripe(store, self.usage(), user, event).await?,
                ReadModel::Figureforge => stripe::<Figureforge, E>(store, user, event).await?,
                ReadModel::Serenya => stripe::<Serenya, E>(store, user, event).await?,
            };
            outcome = joined(outcome, booked);
        }
        Ok(outcome)
    }

    /// Records the current state of a billing record in each read model.
    ///
    /// # Errors
    /// Any [`StoreError`]. A retry is safe: models that have recorded the state report a duplicate.
    pub async fn billing<E: Engine>(&self, store: &Store<E>, record: &Record) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::Skipped;
        for model in self.iter() {
            let booked = match model {
                ReadModel::Usage => crate::usage::billing(store, self.usage(), record).await?,
                ReadModel::Figureforge => billing::<Figureforge, E>(store, record).await?,
                ReadModel::Serenya => billing::<Serenya, E>(store, record).await?,
            };
            outcome = joined(outcome, booked);
        }
        Ok(outcome)
    }

    /// A user's rows in each read model.
    pub async fn show<E: Engine>(&self, store: &Store<E>, user: &UserId) -> Result<Vec<Section>, StoreError> {
        let mut sections = Vec::new();
        for model in self.iter() {
            let (json, lines) = match model {
                ReadModel::Usage => crate::usage::show(store, self.usage(), user).await?,
                ReadModel::Figureforge => crate::figureforge::show(store, user).await?,
                ReadModel::Serenya => crate::serenya::show(store, user).await?,
            };
            sections.push(Section { model, json, lines });
        }
        Ok(sections)
    }
}

/// A user's rows in one read model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The read model.
    pub model: ReadModel,
    /// As JSON.
    pub json: Json,
    /// As lines of text; empty when there is nothing to show.
    pub lines: Vec<String>,
}

async fn stripe<M: Model, E: Engine>(
    store: &Store<E>,
    user: &UserId,
    event: &StripeEvent,
) -> Result<Option<FactOutcome>, StoreError> {
    match M::stripe(user, event) {
        Some((aggregate, fact)) => {
            record_fact::<M, E>(store, &aggregate, event.id.clone(), event.created, fact).await.map(Some)
        }
        None => Ok(None),
    }
}

/// Record and version identify the fact; its time is the record's last run.
async fn billing<M: Model, E: Engine>(
    store: &Store<E>,
    record: &Record,
) -> Result<Option<FactOutcome>, StoreError> {
    let Some((aggregate, fact)) = M::billing(record) else { return Ok(None) };
    record_fact::<M, E>(store, &aggregate, billing_fact(record), billed_at(record), fact).await.map(Some)
}

pub(crate) fn billed_at(record: &Record) -> Time {
    record.last_run_date.as_ref().unwrap_or(&record.billing_date).at()
}

pub(crate) fn billing_fact(record: &Record) -> EventId {
    format!("{}@{}", record.subscription_id, record.version).into()
}

pub(crate) async fn record_fact<M: Model, E: Engine>(
    store: &Store<E>,
    aggregate: &str,
    id: EventId,
    at: Time,
    fact: M::Fact,
) -> Result<FactOutcome, StoreError> {
    let booked = record_facts::<M, E>(store, aggregate, &[Recorded { id, at, fact }]).await?;
    booked
        .first()
        .copied()
        .ok_or_else(|| StoreError::Invalid(format!("{} {aggregate}: a fact was not booked", M::NAME)))
}

/// Combines the outcomes of several models: applied if one of them applied it.
fn joined(outcome: Outcome, booked: Option<FactOutcome>) -> Outcome {
    match (outcome, booked) {
        (_, Some(FactOutcome::Applied)) => Outcome::Applied,
        (Outcome::Skipped, Some(FactOutcome::Duplicate | FactOutcome::ConflictingContent)) => {
            Outcome::Duplicate
        }
        (outcome, _) => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_names_its_read_models() {
        assert_eq!(
            ReadModels::parse("serenya, usage").unwrap().iter().collect::<Vec<_>>(),
            [ReadModel::Usage, ReadModel::Serenya]
        );
        assert_eq!(ReadModels::parse("").unwrap().iter().count(), 0);
        assert_eq!(ReadModels::parse("none"), ReadModels::parse(""));
        let wrong = ReadModels::parse("usage,serena").unwrap_err();
        assert_eq!(wrong, "DUES_READ_MODELS: \"serena\" is not one of usage, figureforge, serenya");
    }
}
