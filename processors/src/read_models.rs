//! Read models: which of them a deployment has, and how they are told of what happens.
//!
//! Facts come from three sides: applications' own events (the stream `app-events`, or the API), Stripe's events once it is known whose they are, and
//! changes of billing records. A fact, the state that it is merged into and the rows that differ are booked in one transaction, see [`booking`].

pub mod booking;
pub mod figureforge;
pub mod serenya;
pub mod usage;

use dues_events::stripe::StripeEvent;
use dues_events::{EventId, Record, Time, UserId};
use dues_projections::figureforge::Figureforge;
use dues_projections::model::{Model, Told};
use dues_projections::serenya::Serenya;
use dues_projections::serenya::tiers::Settings as SerenyaSettings;
use dues_projections::usage::Usage;
use dues_store::{Engine, Store, StoreError};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::batch::Fate;
use booking::{Booked, tell};

/// A read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadModel {
    /// Seed 002.
    Usage,
    /// Seed 003.
    Figureforge,
    /// Seed 004.
    Serenya,
}

impl ReadModel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Usage, Self::Figureforge, Self::Serenya];

    /// Its name, as deployments choose it.
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

/// How a deployment says that it has none.
const NONE: &str = "none";

/// The read models that a deployment has, and how they are set up. Clones share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadModels(Arc<Chosen>);

/// Which they are, and what each of them is configured with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chosen {
    models: BTreeSet<ReadModel>,
    usage: usage::Settings,
    figureforge: figureforge::Settings,
    serenya: SerenyaSettings,
}

/// All of them.
impl Default for ReadModels {
    fn default() -> Self {
        ReadModel::ALL.into_iter().collect()
    }
}

impl FromIterator<ReadModel> for ReadModels {
    fn from_iter<I: IntoIterator<Item = ReadModel>>(models: I) -> Self {
        Self(Arc::new(Chosen {
            models: models.into_iter().collect(),
            usage: usage::Settings::default(),
            figureforge: figureforge::Settings::default(),
            serenya: SerenyaSettings::default(),
        }))
    }
}

impl ReadModels {
    /// The variable that names them.
    pub const VARIABLE: &'static str = "DUES_READ_MODELS";

    /// Reads `usage,serenya`; an empty text names none, and so does `none`, since many take an empty variable for one that is not set.
    ///
    /// # Errors
    /// Names what is no read model.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = if text.trim() == NONE { "" } else { text };
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let read = |name: &str| {
            let known = || ReadModel::ALL.map(ReadModel::name).join(", ");
            ReadModel::named(name).ok_or_else(|| format!("{}: {name:?} is not one of {}", Self::VARIABLE, known()))
        };
        names.map(read).collect()
    }

    /// Whether it has that one.
    #[must_use]
    pub fn has(&self, model: ReadModel) -> bool {
        self.0.models.contains(&model)
    }

    /// Those that it has.
    pub fn iter(&self) -> impl Iterator<Item = ReadModel> + '_ {
        self.0.models.iter().copied()
    }

    /// With other plans than the usual ones.
    #[must_use]
    pub fn with_usage(mut self, usage: usage::Settings) -> Self {
        Arc::make_mut(&mut self.0).usage = usage;
        self
    }

    /// What `usage` is configured with.
    #[must_use]
    pub fn usage(&self) -> &usage::Settings {
        &self.0.usage
    }

    /// The same ones, with `serenya` set up like that.
    #[must_use]
    pub fn with_serenya(mut self, settings: SerenyaSettings) -> Self {
        Arc::make_mut(&mut self.0).serenya = settings;
        self
    }

    /// How `serenya` is set up.
    #[must_use]
    pub fn serenya(&self) -> &SerenyaSettings {
        &self.0.serenya
    }

    /// With other settings of `figureforge`.
    #[must_use]
    pub fn with_figureforge(mut self, settings: figureforge::Settings) -> Self {
        Arc::make_mut(&mut self.0).figureforge = settings;
        self
    }

    /// The settings of `figureforge`.
    #[must_use]
    pub fn figureforge(&self) -> &figureforge::Settings {
        &self.0.figureforge
    }

    /// Tells each of them what Stripe has told of a user.
    ///
    /// # Errors
    /// What the store could not do: told again, those that know it say so.
    pub async fn stripe<E: Engine>(&self, store: &Store<E>, user: &UserId, event: &StripeEvent) -> Result<Fate, StoreError> {
        let mut fate = Fate::Skipped;
        for model in self.iter() {
            let booked = match model {
                ReadModel::Usage => usage::stripe(store, self.usage(), user, event).await?,
                ReadModel::Figureforge => stripe::<Figureforge, E>(store, user, event).await?,
                ReadModel::Serenya => stripe::<Serenya, E>(store, user, event).await?,
            };
            fate = joined(fate, booked);
        }
        Ok(fate)
    }

    /// Tells each of them how a billing record stands now.
    ///
    /// # Errors
    /// What the store could not do: told again, those that know it say so.
    pub async fn billing<E: Engine>(&self, store: &Store<E>, record: &Record) -> Result<Fate, StoreError> {
        let mut fate = Fate::Skipped;
        for model in self.iter() {
            let booked = match model {
                ReadModel::Usage => usage::billing(store, self.usage(), record).await?,
                ReadModel::Figureforge => billing::<Figureforge, E>(store, record).await?,
                ReadModel::Serenya => billing::<Serenya, E>(store, record).await?,
            };
            fate = joined(fate, booked);
        }
        Ok(fate)
    }

    /// What each of them knows of a user.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn show<E: Engine>(&self, store: &Store<E>, user: &UserId) -> Result<Vec<Section>, StoreError> {
        let mut sections = Vec::new();
        for model in self.iter() {
            let (json, lines) = match model {
                ReadModel::Usage => usage::show(store, self.usage(), user).await?,
                ReadModel::Figureforge => figureforge::show(store, user).await?,
                ReadModel::Serenya => serenya::show(store, user).await?,
            };
            sections.push(Section { model, json, lines });
        }
        Ok(sections)
    }
}

/// What a read model knows of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Which one.
    pub model: ReadModel,
    /// For programs.
    pub json: Json,
    /// For people, a line each; none when there is nothing to tell.
    pub lines: Vec<String>,
}

async fn stripe<M: Model, E: Engine>(store: &Store<E>, user: &UserId, event: &StripeEvent) -> Result<Option<Booked>, StoreError> {
    match M::stripe(user, event) {
        Some((aggregate, fact)) => told::<M, E>(store, &aggregate, event.id.clone(), event.created, fact).await.map(Some),
        None => Ok(None),
    }
}

/// A record's version is the identity of what it says; it was so when it was last run.
async fn billing<M: Model, E: Engine>(store: &Store<E>, record: &Record) -> Result<Option<Booked>, StoreError> {
    let Some((aggregate, fact)) = M::billing(record) else { return Ok(None) };
    told::<M, E>(store, &aggregate, billing_fact(record), billed_at(record), fact).await.map(Some)
}

fn billed_at(record: &Record) -> Time {
    record.last_run_date.as_ref().unwrap_or(&record.billing_date).at()
}

fn billing_fact(record: &Record) -> EventId {
    format!("{}@{}", record.subscription_id, record.version).into()
}

async fn told<M: Model, E: Engine>(store: &Store<E>, aggregate: &str, id: EventId, at: Time, fact: M::Fact) -> Result<Booked, StoreError> {
    let booked = tell::<M, E>(store, aggregate, &[Told { id, at, fact }]).await?;
    booked.first().copied().ok_or_else(|| StoreError::Invalid(format!("{} {aggregate}: a fact was not booked", M::NAME)))
}

/// The fate of what several models are told: it changed something as soon as it did so in one of them.
fn joined(fate: Fate, booked: Option<Booked>) -> Fate {
    match (fate, booked) {
        (_, Some(Booked::Applied)) => Fate::Applied,
        (Fate::Skipped, Some(Booked::Duplicate | Booked::Different)) => Fate::Duplicate,
        (fate, _) => fate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_names_its_read_models() {
        assert_eq!(ReadModels::parse("serenya, usage").unwrap().iter().collect::<Vec<_>>(), [ReadModel::Usage, ReadModel::Serenya]);
        assert_eq!(ReadModels::parse("").unwrap().iter().count(), 0);
        assert_eq!(ReadModels::parse("none"), ReadModels::parse(""));
        let wrong = ReadModels::parse("usage,serena").unwrap_err();
        assert_eq!(wrong, "DUES_READ_MODELS: \"serena\" is not one of usage, figureforge, serenya");
    }
}
