//! Settings of a deployment from environment variables, for the local program and the Lambda functions. The
//! caller passes the lookup.

use dues_projections::entitlements::dues::TierMap;
use dues_projections::figureforge::presign::Signer;
use dues_projections::serenya::tiers::Settings as Serenya;

use crate::read_models::ReadModels;
use crate::{figureforge, usage};

/// Variable: tier of each name on a receipt, such as `Plus=JOURNEYMAN,Pro=SAGE`.
pub const TIERS: &str = "DUES_TIERS";
/// Variable: the bucket for which image URLs are signed.
pub const FIGUREFORGE_BUCKET: &str = "DUES_FIGUREFORGE_BUCKET";

/// The tier of each name on a receipt: the default names, unless [`TIERS`] is set.
///
/// # Errors
/// Names the variable and the invalid entry.
pub fn tiers(variable: impl Fn(&str) -> Option<String>) -> Result<TierMap, String> {
    match variable(TIERS) {
        Some(text) => TierMap::parse(&text).map_err(|why| format!("{TIERS}: {why}")),
        None => Ok(TierMap::default()),
    }
}

/// The read models with their settings: all of them, unless `DUES_READ_MODELS` selects some.
///
/// # Errors
/// Names the variable and the problem.
pub fn read_models(variable: impl Fn(&str) -> Option<String>) -> Result<ReadModels, String> {
    let models = variable(ReadModels::VARIABLE)
        .map_or_else(|| Ok(ReadModels::default()), |text| ReadModels::parse(&text))?;
    let serenya =
        variable(Serenya::VARIABLE).map_or_else(|| Ok(Serenya::default()), |text| Serenya::parse(&text))?;
    let usage = usage::Settings::read(&variable)?;
    Ok(models.with_serenya(serenya).with_usage(usage).with_figureforge(figureforge(&variable)?))
}

fn figureforge(variable: &impl Fn(&str) -> Option<String>) -> Result<figureforge::Settings, String> {
    let settings = variable(figureforge::Settings::VARIABLE)
        .map_or_else(|| Ok(figureforge::Settings::default()), |text| figureforge::Settings::parse(&text))?;
    Ok(figureforge::Settings { signer: signer(variable)?, ..settings })
}

/// The URL signer, if a bucket is set. It uses the standard AWS credentials of the environment.
fn signer(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<Signer>, String> {
    let Some(bucket) = variable(FIGUREFORGE_BUCKET) else { return Ok(None) };
    let named =
        |name: &str| variable(name).ok_or_else(|| format!("{FIGUREFORGE_BUCKET} is set, and {name} is not"));
    let region = named("AWS_REGION")?;
    Ok(Some(Signer {
        host: format!("{bucket}.s3.{region}.amazonaws.com"),
        region,
        access_key_id: named("AWS_ACCESS_KEY_ID")?,
        secret_access_key: named("AWS_SECRET_ACCESS_KEY")?,
        session_token: variable("AWS_SESSION_TOKEN"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_models::ReadModel;

    fn read(set: &[(&str, &str)]) -> Result<ReadModels, String> {
        read_models(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn what_is_not_set_is_as_usual() {
        assert_eq!(read(&[]), Ok(ReadModels::default()));
        let set = read(&[
            ("DUES_READ_MODELS", "usage"),
            ("DUES_ACTION_LOG_DAYS", "0"),
            ("DUES_FIGUREFORGE", "auto_block_reports=2"),
        ])
        .unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [ReadModel::Usage]);
        assert_eq!((set.usage().log_days, set.figureforge().auto_block_reports), (None, 2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, value) in [
            ("DUES_READ_MODELS", "users"),
            ("DUES_PLANS", "free"),
            ("DUES_PLAN_TIERS", "SAGE=no-such-plan"),
            ("DUES_ACTION_LOG_DAYS", "ninety"),
            ("DUES_FIGUREFORGE", "colour=red"),
            ("DUES_SERENYA", "{"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(name), "{name}: {error}");
        }
        assert_eq!(
            read(&[(FIGUREFORGE_BUCKET, "images")]).unwrap_err(),
            "DUES_FIGUREFORGE_BUCKET is set, and AWS_REGION is not"
        );
    }

    #[test]
    fn urls_are_signed_with_the_credentials_of_the_environment() {
        let credentials =
            [("AWS_REGION", "eu-central-1"), ("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "key")];
        let set = read(&[&credentials[..], &[(FIGUREFORGE_BUCKET, "images")]].concat()).unwrap();
        let signer = set.figureforge().signer.clone().unwrap();
        assert_eq!((&*signer.host, signer.session_token), ("images.s3.eu-central-1.amazonaws.com", None));
        assert_eq!(read(&credentials).unwrap().figureforge().signer, None);
    }
}
