//! The paths, and what they ask for.

use dues_events::{SubscriptionId, UserId};

use super::{figureforge, serenya, usage};
use crate::fields::LONGEST_ID;
use crate::read_models::ReadModel;

/// What starts the paths of the read models.
const MODELS: &str = "models/";

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// To do something with a billing record.
    Command(CommandRoute),
    /// A user's billing records.
    Records(UserId, Wanted),
    /// A user's story.
    Explain(UserId),
    /// What a user may use.
    Entitlement(UserId, Asked),
    /// A read model, and what stands behind its name, segment by segment.
    Model(ReadModel, Vec<String>),
}

/// Which of a user's billing records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of them.
    All,
    /// That one.
    One(SubscriptionId),
    /// Every change of that one.
    History(SubscriptionId),
}

impl Route {
    /// Its path, with names in the place of ids: as the OpenAPI document and the metrics have it.
    pub(super) fn template(&self) -> &'static str {
        match self {
            Self::Command(route) => route.verb.template(),
            Self::Records(_, Wanted::All) => "/{user_id}/subscriptions",
            Self::Records(_, Wanted::One(_)) => "/{user_id}/subscriptions/{subscription_id}",
            Self::Records(_, Wanted::History(_)) => "/{user_id}/subscriptions/{subscription_id}/history",
            Self::Explain(_) => "/{user_id}/explain",
            Self::Entitlement(_, asked) => asked.template(),
            Self::Model(model, path) => {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                // What is not there needs a name too, for the metrics.
                match model {
                    ReadModel::Usage => usage::template(&path).unwrap_or("/models/usage/{path}"),
                    ReadModel::Figureforge => figureforge::template(&path).unwrap_or("/models/figureforge/{path}"),
                    ReadModel::Serenya => serenya::template(&path).unwrap_or("/models/serenya/{path}"),
                }
            }
        }
    }

    /// Its one method; the read models have their own.
    pub(super) fn method(&self) -> Option<&'static str> {
        match self {
            Self::Command(_) => Some("POST"),
            Self::Records(..) | Self::Explain(_) => Some("GET"),
            Self::Entitlement(_, asked) => Some(asked.method()),
            Self::Model(..) => None,
        }
    }
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
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Ledger, Self::Consume, Self::Credits, Self::Access];

    /// The end of its path.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Credits => "credits",
            Self::Ledger => "credits/ledger",
            Self::Consume => "credits/consume",
        }
    }

    /// Its path.
    fn template(self) -> &'static str {
        match self {
            Self::Access => "/{user_id}/access",
            Self::Credits => "/{user_id}/credits",
            Self::Ledger => "/{user_id}/credits/ledger",
            Self::Consume => "/{user_id}/credits/consume",
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

    /// Its path.
    fn template(self) -> &'static str {
        match self {
            Self::Pay => "/{user_id}/subscriptions/{subscription_id}/pay",
            Self::Waive => "/{user_id}/subscriptions/{subscription_id}/waive",
            Self::Cancel => "/{user_id}/subscriptions/{subscription_id}/cancel",
            Self::Pause => "/{user_id}/subscriptions/{subscription_id}/pause",
            Self::Resume => "/{user_id}/subscriptions/{subscription_id}/resume",
        }
    }
}

/// What a user's billing records are below.
const SUBSCRIPTIONS: &str = "subscriptions";
const HISTORY: &str = "history";
const EXPLAIN: &str = "explain";

/// Reads a path. Where the first segment alone can be the user, it is. Otherwise it is read from its end: API Gateway decodes some paths before they
/// come here, and a user id may hold a slash then.
pub(super) fn route(path: &str) -> Result<Route, String> {
    let path = path.strip_prefix('/').ok_or_else(unknown)?;
    if let Some((name, rest)) = path.strip_prefix(MODELS).and_then(|path| path.split_once('/'))
        && let Some(model) = ReadModel::named(name)
    {
        let segments = rest.split('/').map(|segment| decoded(segment).ok_or_else(unknown)).collect::<Result<_, _>>()?;
        return Ok(Route::Model(model, segments));
    }
    let segments: Vec<&str> = path.split('/').collect();
    // The shortest user first.
    let found = (1..segments.len()).find_map(|users| {
        let (user, rest) = segments.split_at(users);
        below(decoded(&user.join("/"))?.into(), rest)
    });
    found.ok_or_else(unknown)
}

fn unknown() -> String {
    let verbs = VERBS.map(Verb::name).join("|");
    let asked = Asked::ALL.map(Asked::name).join("|");
    format!(
        "the paths here are /{{user_id}}/{SUBSCRIPTIONS}, /{{user_id}}/{SUBSCRIPTIONS}/{{subscription_id}}, the same with /{{{HISTORY}|{verbs}}}, and \
         /{{user_id}}/{{{EXPLAIN}|{asked}}}"
    )
}

/// What the rest of a path asks of a user.
fn below(user: UserId, rest: &[&str]) -> Option<Route> {
    let id = |segment: &str| decoded(segment).map(SubscriptionId::from);
    match *rest {
        [EXPLAIN] => Some(Route::Explain(user)),
        [SUBSCRIPTIONS] => Some(Route::Records(user, Wanted::All)),
        [SUBSCRIPTIONS, subscription] => Some(Route::Records(user, Wanted::One(id(subscription)?))),
        [SUBSCRIPTIONS, subscription, HISTORY] => Some(Route::Records(user, Wanted::History(id(subscription)?))),
        [SUBSCRIPTIONS, subscription, verb] => {
            let verb = VERBS.into_iter().find(|known| known.name() == verb)?;
            Some(Route::Command(CommandRoute { user, id: id(subscription)?, verb }))
        }
        _ => Asked::ALL.into_iter().find(|asked| asked.name() == rest.join("/")).map(|asked| Route::Entitlement(user, asked)),
    }
}

/// An id without its percent-encoding.
fn decoded(segment: &str) -> Option<String> {
    decoded_text(segment).filter(|id| (1..=LONGEST_ID).contains(&id.len()))
}

/// A text without its percent-encoding. A `%` that encodes nothing stands for itself: it was decoded before.
#[must_use]
pub fn decoded_text(segment: &str) -> Option<String> {
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
            Ok(Route::Entitlement(..) | Route::Model(..) | Route::Records(..) | Route::Explain(_)) | Err(_) => None,
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
    fn paths_that_ask_for_billing_records_and_for_the_story() {
        let records = |user: &str, wanted| Ok(Route::Records(user.into(), wanted));
        assert_eq!(route("/u-1/subscriptions"), records("u-1", Wanted::All));
        assert_eq!(route("/u-1/subscriptions/s-1"), records("u-1", Wanted::One("s-1".into())));
        assert_eq!(route("/u-1/subscriptions/s-1/history"), records("u-1", Wanted::History("s-1".into())));
        assert_eq!(route("/u-1/explain"), Ok(Route::Explain("u-1".into())));
        assert_eq!(route("/auth0|abc/d/subscriptions"), records("auth0|abc/d", Wanted::All), "decoded before");
        // The first segment is the user wherever it can be.
        assert_eq!(route("/u-1/subscriptions/subscriptions"), records("u-1", Wanted::One("subscriptions".into())));
        assert_eq!(route("/u-1/subscriptions/access"), records("u-1", Wanted::One("access".into())));
        assert_eq!(route("/subscriptions/subscriptions"), records("subscriptions", Wanted::All));
        for no in
            ["/subscriptions", "/u-1/subscriptions/", "//subscriptions", "/u-1/explain/", "/explain", "/u-1/subscriptions/s-1/History"]
        {
            assert!(route(no).is_err(), "{no}");
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
