//! What collections remember of a member: the last incomes.

mod incomes;
