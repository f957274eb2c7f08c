//! What the environment says of a deployment.

use dues_processors::read_models::{ReadModels, usage};
use dues_projections::dues::TierMap;
use dues_projections::serenya::tiers::Settings;

use crate::output::Error;

/// Where the map of tiers is: `Plus=JOURNEYMAN,Pro=SAGE`.
const TIERS: &str = "DUES_TIERS";

/// Which tier a name on a receipt stands for: the usual names, unless `DUES_TIERS` says otherwise.
pub(crate) fn tiers() -> Result<TierMap, Error> {
    match std::env::var(TIERS) {
        Ok(text) => TierMap::parse(&text).map_err(|why| Error::Said(format!("{TIERS}: {why}"))),
        Err(_) => Ok(TierMap::default()),
    }
}

/// The read models: all of them, unless `DUES_READ_MODELS` names some; tiers and chat options of `serenya` as `DUES_SERENYA` says.
pub(crate) fn read_models() -> Result<ReadModels, Error> {
    let mut models = match std::env::var(ReadModels::VARIABLE) {
        Ok(text) => ReadModels::parse(&text).map_err(Error::Said)?,
        Err(_) => ReadModels::default(),
    };
    if let Ok(text) = std::env::var(Settings::VARIABLE) {
        models = models.with_serenya(Settings::parse(&text).map_err(Error::Said)?);
    }
    Ok(models.with_usage(usage()?))
}

/// Plans and their limits: the usual ones, unless `DUES_PLANS`, `DUES_PLAN_TIERS` and `DUES_ACTION_LOG_DAYS` say otherwise.
pub(crate) fn usage() -> Result<usage::Settings, Error> {
    usage::Settings::read(|variable| std::env::var(variable).ok()).map_err(Error::Said)
}
