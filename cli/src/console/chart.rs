//! Charts as SVG. The drawing stretches with the page; labels are HTML next to it and stay sharp.

use maud::{Markup, html};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;

/// The height of a chart, the width of a column and of its bar, in SVG units.
const HEIGHT: u64 = 1000;
const COLUMN: u64 = 100;
const BAR: u64 = 64;

/// A stacked column.
pub(super) struct Column {
    pub(super) label: String,
    pub(super) total: String,
    /// From the bottom up.
    pub(super) parts: Vec<Part>,
    /// Whether it lies in the future.
    pub(super) ahead: bool,
}

/// A part of a column.
pub(super) struct Part {
    pub(super) class: &'static str,
    /// Relative to the other parts.
    pub(super) size: u64,
    pub(super) title: String,
}

/// Stacked columns with an axis.
pub(super) fn columns(title: &str, columns: &[Column]) -> Markup {
    let sizes = columns.iter().map(|column| column.parts.iter().map(|part| part.size).sum());
    let highest = sizes.max().unwrap_or(0).max(1);
    let width = COLUMN * columns.len() as u64;
    html! {
        div.columns role="group" aria-label=(title) {
            svg.plot viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                @for quarter in 0..4 {
                    @let y = HEIGHT * quarter / 4;
                    line.grid x1="0" x2=(width) y1=(y) y2=(y) {}
                }
                @for (n, column) in columns.iter().enumerate() { (bar(n, column, highest)) }
            }
            ol.axis {
                @for column in columns {
                    li.ahead[column.ahead] { b { (column.total) } span { (column.label) } }
                }
            }
        }
    }
}

/// Offsets are rounded, not heights, so that neighbouring parts meet.
fn bar(n: usize, column: &Column, highest: u64) -> Markup {
    let x = n as u64 * COLUMN + (COLUMN - BAR) / 2;
    let offset = |size: u64| {
        u64::try_from(u128::from(size) * u128::from(HEIGHT) / u128::from(highest)).unwrap_or(HEIGHT)
    };
    let mut below = 0;
    let parts = column.parts.iter().filter(|part| part.size > 0).map(|part| {
        let (bottom, top) = (offset(below), offset(below + part.size));
        below += part.size;
        (part, HEIGHT - top, top - bottom)
    });
    html! {
        @for (part, y, height) in parts {
            rect class={ "f-" (part.class) } x=(x) y=(y) width=(BAR) height=(height) {
                title { (part.title) }
            }
        }
    }
}

/// Colour class, name and value of each entry.
pub(super) fn legend(entries: &[(&'static str, &'static str, String)]) -> Markup {
    html! {
        ul.legend {
            @for (class, name, value) in entries {
                li class={ "s-" (class) } { i aria-hidden="true" {} (name) " " b { (value) } }
            }
        }
    }
}

/// A rate against its limit, which is at two thirds of the width.
pub(super) fn gauge(rate: Decimal, limit: Decimal) -> Markup {
    const LIMIT: u64 = 667;
    let share =
        (rate * Decimal::from(LIMIT)).checked_div(limit).and_then(|share| share.to_u64()).unwrap_or(0);
    html! {
        svg class={ "gauge " (if rate > limit { "over" } else { "within" }) } viewBox="0 0 1000 10"
            preserveAspectRatio="none" aria-hidden="true" {
            rect.bed width="1000" height="10" {}
            rect.fill width=(share.min(1000)) height="10" {}
            line x1=(LIMIT) x2=(LIMIT) y1="0" y2="10" {}
        }
    }
}

/// Events per second over the last minute.
pub(super) fn sparkline(values: &[u64]) -> Markup {
    let highest = values.iter().copied().max().unwrap_or(0).max(1);
    let start = 60_usize.saturating_sub(values.len());
    let point = |(n, value): (usize, &u64)| format!("{},{}", start + n, 40 - value * 36 / highest);
    let points: Vec<String> = values.iter().enumerate().map(point).collect();
    html! {
        svg.pulse viewBox="0 0 59 42" preserveAspectRatio="none" aria-hidden="true" {
            polyline id="pulse" points=(points.join(" ")) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_column_meet_and_fill_the_height() {
        let part = |size| Part { class: "completed", size, title: "<b>".into() };
        let column =
            Column { label: "Jan".into(), total: "3".into(), parts: vec![part(1), part(2)], ahead: false };
        let drawn = columns("t", &[column]).into_string();
        assert!(
            drawn.contains("y=\"667\" width=\"64\" height=\"333\"")
                && drawn.contains("y=\"0\" width=\"64\" height=\"667\""),
            "{drawn}"
        );
        assert!(drawn.contains("<title>&lt;b&gt;</title>"));
    }

    #[test]
    fn empty_data_does_not_divide_by_zero() {
        assert!(columns("t", &[]).into_string().contains("viewBox=\"0 0 0 1000\""));
        assert!(gauge(Decimal::ZERO, Decimal::ZERO).into_string().contains("within"));
        assert!(sparkline(&[]).into_string().contains("points=\"\""));
    }

    #[test]
    fn a_rate_at_its_limit_reaches_the_mark() {
        assert!(gauge(Decimal::new(5, 1), Decimal::new(5, 1)).into_string().contains("width=\"667\""));
        assert!(gauge(Decimal::from(9), Decimal::new(5, 1)).into_string().contains("gauge over"));
    }
}
