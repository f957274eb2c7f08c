//! What the environment says of a deployment.

use dues_processors::read_models::{ReadModels, usage};
use dues_processors::settings;
use dues_projections::dues::TierMap;

use crate::output::Error;

/// Which tier a name on a receipt stands for: the usual names, unless `DUES_TIERS` says otherwise.
pub(crate) fn tiers() -> Result<TierMap, Error> {
    settings::tiers(variable).map_err(Error::Said)
}

/// The read models: all of them, unless `DUES_READ_MODELS` names some; each as its own variables set it up.
pub(crate) fn read_models() -> Result<ReadModels, Error> {
    settings::read_models(variable).map_err(Error::Said)
}

/// Plans and their limits: the usual ones, unless `DUES_PLANS`, `DUES_PLAN_TIERS` and `DUES_ACTION_LOG_DAYS` say otherwise.
pub(crate) fn usage() -> Result<usage::Settings, Error> {
    usage::Settings::read(variable).map_err(Error::Said)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
