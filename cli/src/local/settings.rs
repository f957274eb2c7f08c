//! Settings from environment variables.

use dues_processors::read_models::ReadModels;
use dues_processors::runtime::settings;
use dues_processors::usage;
use dues_projections::entitlements::dues::TierMap;

use crate::output::Error;

/// Tier names of receipts: the defaults, or `DUES_TIERS`.
pub(crate) fn tiers() -> Result<TierMap, Error> {
    settings::tiers(variable).map_err(Error::Message)
}

/// The enabled read models: all, or those in `DUES_READ_MODELS`.
pub(crate) fn read_models() -> Result<ReadModels, Error> {
    settings::read_models(variable).map_err(Error::Message)
}

/// Plans and limits: the defaults, or `DUES_PLANS`, `DUES_PLAN_TIERS` and `DUES_ACTION_LOG_DAYS`.
pub(crate) fn usage() -> Result<usage::Settings, Error> {
    usage::Settings::read(variable).map_err(Error::Message)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
