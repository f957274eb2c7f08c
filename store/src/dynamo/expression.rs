//! Conditions and edits as DynamoDB expressions, with placeholders for every name and value.

use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;

use super::convert;
use crate::engine::{Condition, Edit, Sorted};
use crate::table::Table;
use dues_events::Value;

/// The placeholders of one request, shared by all its expressions.
#[derive(Debug, Default)]
pub(super) struct Expression {
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Expression {
    /// A condition expression; `None` for a condition that always holds.
    pub(super) fn render(&mut self, condition: &Condition, table: &Table) -> Option<String> {
        Some(match condition {
            Condition::Always => return None,
            Condition::NoItem => format!("attribute_not_exists({})", self.name(table.partition)),
            Condition::Missing(name) => format!("attribute_not_exists({})", self.name(name)),
            Condition::Equals(name, value) => format!("{} = {}", self.name(name), self.value(value)),
            Condition::Less(name, value) => format!("{} < {}", self.name(name), self.value(value)),
            Condition::AtLeast(name, value) => format!("{} >= {}", self.name(name), self.value(value)),
            Condition::All(all) => self.join(all, " AND ", table)?,
            Condition::Any(any) => self.join(any, " OR ", table)?,
        })
    }

    /// The part of a key condition that selects the range of sort keys.
    pub(super) fn sorted(&mut self, sort: &str, sorted: &Sorted) -> String {
        match sorted {
            Sorted::All => String::new(),
            Sorted::Prefix(prefix) => format!(
                " AND begins_with({}, {})",
                self.name(sort),
                self.value(&Value::text(prefix.as_str()))
            ),
            Sorted::Between(least, most) if least == most => {
                format!(" AND {} = {}", self.name(sort), self.value(least))
            }
            Sorted::Between(least, most) => {
                format!(" AND {} BETWEEN {} AND {}", self.name(sort), self.value(least), self.value(most))
            }
        }
    }

    /// A condition that holds whether or not the item exists.
    pub(super) fn always(&mut self, table: &Table) -> String {
        let name = self.name(table.partition);
        format!("attribute_exists({name}) OR attribute_not_exists({name})")
    }

    /// An update expression: one clause for each kind of edit; `None` if there are no edits.
    pub(super) fn edits(&mut self, edits: &[Edit]) -> Option<String> {
        let [mut set, mut add, mut remove] = [const { Vec::new() }; 3];
        for edit in edits {
            let name = self.name(edit.name());
            match edit {
                Edit::Set(_, value) => set.push(format!("{name} = {}", self.value(value))),
                Edit::Add(_, number) => {
                    add.push(format!("{name} {}", self.value(&Value::N(number.to_string()))))
                }
                Edit::Remove(_) => remove.push(name),
            }
        }
        let clauses = [("SET", set), ("ADD", add), ("REMOVE", remove)]
            .into_iter()
            .filter(|(_, parts)| !parts.is_empty());
        let clauses: Vec<String> =
            clauses.map(|(word, parts)| format!("{word} {}", parts.join(", "))).collect();
        (!clauses.is_empty()).then(|| clauses.join(" "))
    }

    fn join(&mut self, conditions: &[Condition], word: &str, table: &Table) -> Option<String> {
        let mut parts: Vec<String> =
            conditions.iter().filter_map(|condition| self.render(condition, table)).collect();
        // DynamoDB rejects redundant parentheses.
        if parts.len() > 1 {
            parts.iter_mut().for_each(|part| *part = format!("({part})"));
        }
        (!parts.is_empty()).then(|| parts.join(word))
    }

    fn name(&mut self, name: &str) -> String {
        if let Some((place, _)) = self.names.iter().find(|(_, known)| *known == name) {
            return place.clone();
        }
        let place = format!("#n{}", self.names.len());
        self.names.insert(place.clone(), name.to_owned());
        place
    }

    fn value(&mut self, value: &Value) -> String {
        let place = format!(":v{}", self.values.len());
        self.values.insert(place.clone(), convert::attribute(value.clone()));
        place
    }

    pub(super) fn names(&self) -> Option<HashMap<String, String>> {
        (!self.names.is_empty()).then(|| self.names.clone())
    }

    pub(super) fn values(&self) -> Option<HashMap<String, AttributeValue>> {
        (!self.values.is_empty()).then(|| self.values.clone())
    }
}
