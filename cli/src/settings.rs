//! What the environment says of a deployment.

use dues_processors::read_models::{ReadModels, figureforge, usage};
use dues_projections::dues::TierMap;
use dues_projections::figureforge::presign::Signer;
use dues_projections::serenya::tiers::Settings as Serenya;

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

/// The read models: all of them, unless `DUES_READ_MODELS` names some; each as its own variables set it up.
pub(crate) fn read_models() -> Result<ReadModels, Error> {
    let mut models = match std::env::var(ReadModels::VARIABLE) {
        Ok(text) => ReadModels::parse(&text).map_err(Error::Said)?,
        Err(_) => ReadModels::default(),
    };
    if let Ok(text) = std::env::var(Serenya::VARIABLE) {
        models = models.with_serenya(Serenya::parse(&text).map_err(Error::Said)?);
    }
    Ok(models.with_usage(usage()?).with_figureforge(figureforge()?))
}

/// Plans and their limits: the usual ones, unless `DUES_PLANS`, `DUES_PLAN_TIERS` and `DUES_ACTION_LOG_DAYS` say otherwise.
pub(crate) fn usage() -> Result<usage::Settings, Error> {
    usage::Settings::read(|variable| std::env::var(variable).ok()).map_err(Error::Said)
}

/// The bucket whose objects URLs are signed for.
const BUCKET: &str = "DUES_FIGUREFORGE_BUCKET";

fn figureforge() -> Result<figureforge::Settings, Error> {
    let settings = std::env::var(figureforge::Settings::VARIABLE)
        .map_or(Ok(figureforge::Settings::default()), |text| figureforge::Settings::parse(&text))
        .map_err(Error::Said)?;
    Ok(figureforge::Settings { signer: signer()?, ..settings })
}

/// Who signs URLs, if there is a bucket: with the credentials that every program of AWS's finds in its environment.
fn signer() -> Result<Option<Signer>, Error> {
    let Ok(bucket) = std::env::var(BUCKET) else { return Ok(None) };
    let named = |name: &str| std::env::var(name).map_err(|_| Error::Said(format!("{BUCKET} is set, and {name} is not")));
    let region = named("AWS_REGION")?;
    Ok(Some(Signer {
        host: format!("{bucket}.s3.{region}.amazonaws.com"),
        region,
        access_key_id: named("AWS_ACCESS_KEY_ID")?,
        secret_access_key: named("AWS_SECRET_ACCESS_KEY")?,
        session_token: std::env::var("AWS_SESSION_TOKEN").ok(),
    }))
}
