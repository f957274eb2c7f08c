//! Unapplied money: every listed row says what its record says. Money without a record is its own source.

use dues_store::billing::money::{MoneyRow, MoneyStatus};
use dues_store::table::UNAPPLIED_MONEY;
use dues_store::{Engine, Store, StoreError};

use super::{Audit, FindingKind};

/// Audits the listing.
pub(super) async fn check<E: Engine>(store: &Store<E>) -> Result<Audit, StoreError> {
    let mut audit = Audit::default();
    for status in MoneyStatus::ALL {
        for row in store.money_rows(status).await?.into_iter().filter(|row| row.reports.is_none()) {
            audit.rows += 1;
            let Some(record) = store.get_by_id(&row.subscription_id).await? else {
                let detail = format!("there is no billing record {}", row.subscription_id);
                audit.find(FindingKind::Unexplained, &UNAPPLIED_MONEY, row.id, detail);
                continue;
            };
            let expected = MoneyRow::all_of(&record).into_iter().find(|expected| expected.id == row.id);
            let said = |row: &MoneyRow| format!("{} {} {}", row.status.as_str(), row.amount, row.currency);
            let (is, should) = (said(&row), expected.as_ref().map(said));
            let agrees = match &should {
                Some(should) => is == *should,
                // Returned, refunded, or it pays after all: the amount is what it was.
                None => row.status == MoneyStatus::Gone,
            };
            if !agrees {
                let should = should.as_deref().unwrap_or(MoneyStatus::Gone.as_str());
                let detail = format!("it is {is}, and by its record it is {should}");
                audit.find(FindingKind::Differs, &UNAPPLIED_MONEY, row.id, detail);
            }
        }
    }
    Ok(audit)
}
