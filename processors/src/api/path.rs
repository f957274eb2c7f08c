//! The paths of the commands.

use dues_events::{SubscriptionId, UserId};

use crate::fields::LONGEST_ID;
use crate::read_models::ReadModel;

/// What starts the paths of the read models.
const MODELS: &str = "models/";

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// To do something with a billing record.
    Command(CommandRoute),
    /// What a user may use.
    Entitlement(UserId, Asked),
    /// A read model, and what stands behind its name, segment by segment.
    Model(ReadModel, Vec<String>),
}

/// What is asked about a user's entitlements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Access,
    Credits,
    Ledger,
    Consume,
}

impl Asked {
    /// All of them, the longest path first.
    const ALL: [Self; 4] = [Self::Ledger, Self::Consume, Self::Credits, Self::Access];

    /// The end of its path.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Credits => "credits",
            Self::Ledger => "credits/ledger",
            Self::Consume => "credits/consume",
        }
    }

    /// Its one method.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Access | Self::Credits | Self::Ledger => "GET",
            Self::Consume => "POST",
        }
    }
}

/// A command, and which record it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandRoute {
    pub(super) user: UserId,
    pub(super) id: SubscriptionId,
    pub(super) verb: Verb,
}

/// The last segment of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Pay,
    Waive,
    Cancel,
    Pause,
    Resume,
}

/// All of them.
pub(super) const VERBS: [Verb; 5] = [Verb::Pay, Verb::Waive, Verb::Cancel, Verb::Pause, Verb::Resume];

impl Verb {
    /// As the path has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Waive => "waive",
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

/// Reads a path, from its end: API Gateway decodes some paths before they come here, and a user id may hold a slash then.
pub(super) fn route(path: &str) -> Result<Route, String> {
    let verbs = VERBS.map(Verb::name).join("|");
    let asked = Asked::ALL.map(Asked::name).join("|");
    let unknown = || format!("the paths here are /{{user_id}}/subscriptions/{{subscription_id}}/{{{verbs}}} and /{{user_id}}/{{{asked}}}");
    let path = path.strip_prefix('/').ok_or_else(unknown)?;
    if let Some((name, rest)) = path.strip_prefix(MODELS).and_then(|path| path.split_once('/'))
        && let Some(model) = ReadModel::named(name)
    {
        let segments = rest.split('/').map(|segment| decoded(segment).ok_or_else(unknown)).collect::<Result<_, _>>()?;
        return Ok(Route::Model(model, segments));
    }
    for asked in Asked::ALL {
        if let Some(user) = path.strip_suffix(asked.name()).and_then(|user| user.strip_suffix('/')) {
            return Ok(Route::Entitlement(decoded(user).ok_or_else(unknown)?.into(), asked));
        }
    }
    let mut segments = path.rsplitn(4, '/');
    let (Some(verb), Some(id), Some("subscriptions"), Some(user)) = (segments.next(), segments.next(), segments.next(), segments.next())
    else {
        return Err(unknown());
    };
    let verb = VERBS.into_iter().find(|known| known.name() == verb).ok_or_else(unknown)?;
    let (user, id) = (decoded(user).ok_or_else(unknown)?, decoded(id).ok_or_else(unknown)?);
    Ok(Route::Command(CommandRoute { user: user.into(), id: id.into(), verb }))
}

/// An id without its percent-encoding.
fn decoded(segment: &str) -> Option<String> {
    decoded_text(segment).filter(|id| (1..=LONGEST_ID).contains(&id.len()))
}

/// A text without its percent-encoding. A `%` that encodes nothing stands for itself: it was decoded before.
pub(crate) fn decoded_text(segment: &str) -> Option<String> {
    let bytes = segment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let encoded = (byte == b'%').then(|| Some(hex(*bytes.get(at + 1)?)? << 4 | hex(*bytes.get(at + 2)?)?)).flatten();
        out.push(encoded.unwrap_or(byte));
        at += if encoded.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_what_they_ask_for() {
        let ids = |path: &str| match route(path) {
            Ok(Route::Command(route)) => Some((route.user.to_string(), route.id.to_string(), route.verb)),
            Ok(Route::Entitlement(..) | Route::Model(..)) | Err(_) => None,
        };
        let some = |user: &str, id: &str, verb| Some((user.to_owned(), id.to_owned(), verb));
        assert_eq!(ids("/u-1/subscriptions/s-1/pay"), some("u-1", "s-1", Verb::Pay));
        assert_eq!(ids("/auth0%7Cabc%2fd/subscriptions/s%20%C3%A4/pause"), some("auth0|abc/d", "s ä", Verb::Pause));
        assert_eq!(ids("/auth0|abc/d/subscriptions/s-1/resume"), some("auth0|abc/d", "s-1", Verb::Resume), "decoded before");
        assert_eq!(ids("/50%/subscriptions/s%zz%4/waive"), some("50%", "s%zz%4", Verb::Waive));
        for verb in VERBS {
            assert_eq!(ids(&format!("/u/subscriptions/s/{}", verb.name())), some("u", "s", verb));
        }
        let long = "x".repeat(LONGEST_ID + 1);
        for no in [
            "",
            "/",
            "u/subscriptions/s/pay",
            "/u/subscriptions/s",
            "/u/subscriptions/s/pay/",
            "/u/subscriptions/s/PAY",
            "/u/subscriptions/s/refund",
            "/u/memberships/s/pay",
            "//subscriptions/s/pay",
            "/u/subscriptions//pay",
            "/%ff/subscriptions/s/pay",
            &format!("/{long}/subscriptions/s/pay"),
        ] {
            assert_eq!(ids(no), None, "{no}");
        }
    }

    #[test]
    fn paths_that_ask_what_a_user_may_use() {
        for asked in Asked::ALL {
            let user = |path: &str| route(&format!("{path}/{}", asked.name()));
            assert_eq!(user("/u-1"), Ok(Route::Entitlement("u-1".into(), asked)));
            assert_eq!(user("/auth0%7Cabc%2fd"), Ok(Route::Entitlement("auth0|abc/d".into(), asked)));
            assert!(user("").is_err() && user("/").is_err());
        }
        assert!(route("/u-1/credits/spend").is_err() && route("/access").is_err() && route("/u-1/Access").is_err());
    }
}
