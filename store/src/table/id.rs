//! Tables by identity, so that code never compares them by name.

use super::{
    BILLING_ACTIVITY, ENTITLEMENTS, GG_CORE, GROUPS, HISTORY, JOURNAL, LOCKS, PARKED, SANDBOX, Table,
    UNAPPLIED_MONEY, figureforge, serenya, usage,
};

/// One variant per table. The discriminant is the table's number in an embedded file: append, never reorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableId {
    /// The current state of every billing record.
    BillingActivity,
    /// Every state of every billing record.
    History,
    /// Collection locks, one per user.
    Locks,
    /// Records that could not be processed.
    Parked,
    /// The sandbox gateway.
    Sandbox,
    /// Group memberships, where there is no Cognito.
    Groups,
    /// Profiles, subscriptions, passes and credits.
    GgCore,
    /// Stripe events by user, owner links and waiting events.
    Entitlements,
    /// The facts of the read models.
    Journal,
    /// Plans of the usage model.
    UserSubscriptions,
    /// Usage counters.
    UserUsage,
    /// Counted actions.
    ActionsLog,
    /// The figureforge read model.
    Figureforge,
    /// The serenya read model.
    Serenya,
    /// Money that arrived and pays for nothing.
    UnappliedMoney,
}

impl TableId {
    /// Every table, in the order of the discriminants.
    pub const ALL: [Self; 15] = [
        Self::BillingActivity,
        Self::History,
        Self::Locks,
        Self::Parked,
        Self::Sandbox,
        Self::Groups,
        Self::GgCore,
        Self::Entitlements,
        Self::Journal,
        Self::UserSubscriptions,
        Self::UserUsage,
        Self::ActionsLog,
        Self::Figureforge,
        Self::Serenya,
        Self::UnappliedMoney,
    ];

    /// Keys, indexes, stream and TTL of the table.
    #[must_use]
    pub const fn definition(self) -> &'static Table {
        match self {
            Self::BillingActivity => &BILLING_ACTIVITY,
            Self::History => &HISTORY,
            Self::Locks => &LOCKS,
            Self::Parked => &PARKED,
            Self::Sandbox => &SANDBOX,
            Self::Groups => &GROUPS,
            Self::GgCore => &GG_CORE,
            Self::Entitlements => &ENTITLEMENTS,
            Self::Journal => &JOURNAL,
            Self::UserSubscriptions => &usage::USER_SUBSCRIPTIONS,
            Self::UserUsage => &usage::USER_USAGE,
            Self::ActionsLog => &usage::ACTIONS_LOG,
            Self::Figureforge => &figureforge::FIGUREFORGE,
            Self::Serenya => &serenya::SERENYA,
            Self::UnappliedMoney => &UNAPPLIED_MONEY,
        }
    }

    /// The table's own name, the default of every deployment.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// The table with that own name, as exports and read models write it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|id| id.name() == name)
    }

    /// The table's number in an embedded file.
    #[must_use]
    pub const fn number(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_names_and_numbers_lead_back_to_the_id() {
        for (n, id) in TableId::ALL.into_iter().enumerate() {
            assert_eq!(
                (id.number(), id.definition().id, TableId::from_name(id.name())),
                (n, id, Some(id)),
                "{id:?}"
            );
        }
        assert_eq!(TableId::from_name("guild"), None);
    }
}
