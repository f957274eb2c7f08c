//! The paths of the commands.

use dues_events::{SubscriptionId, UserId};

use crate::fields::LONGEST_ID;

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
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
    let unknown = || format!("the paths here are /{{user_id}}/subscriptions/{{subscription_id}}/{{{verbs}}}");
    let mut segments = path.strip_prefix('/').ok_or_else(unknown)?.rsplitn(4, '/');
    let (Some(verb), Some(id), Some("subscriptions"), Some(user)) = (segments.next(), segments.next(), segments.next(), segments.next())
    else {
        return Err(unknown());
    };
    let verb = VERBS.into_iter().find(|known| known.name() == verb).ok_or_else(unknown)?;
    let (user, id) = (decoded(user).ok_or_else(unknown)?, decoded(id).ok_or_else(unknown)?);
    Ok(Route { user: user.into(), id: id.into(), verb })
}

/// An id without its percent-encoding. A `%` that encodes nothing stands for itself: it was decoded before.
fn decoded(segment: &str) -> Option<String> {
    let bytes = segment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let encoded = (byte == b'%').then(|| Some(hex(*bytes.get(at + 1)?)? << 4 | hex(*bytes.get(at + 2)?)?)).flatten();
        out.push(encoded.unwrap_or(byte));
        at += if encoded.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).ok().filter(|id| (1..=LONGEST_ID).contains(&id.len()))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_what_they_ask_for() {
        let ids = |path: &str| route(path).map(|route| (route.user.to_string(), route.id.to_string(), route.verb)).ok();
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
}
