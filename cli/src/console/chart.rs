//! Charts as SVG, made here: the drawing stretches with the page, its words are HTML beside it and stay sharp.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;

use super::html::Html;

/// How high a drawing is, in its own units, and how wide one column.
const HEIGHT: u64 = 1000;
const COLUMN: u64 = 100;
const BAR: u64 = 64;

/// A column: what stands below it, what it comes to, and its parts from the bottom up.
pub(super) struct Column {
    pub(super) label: String,
    pub(super) total: String,
    pub(super) parts: Vec<Piece>,
    /// Whether it is about what has not happened yet.
    pub(super) ahead: bool,
}

/// A part of a column.
pub(super) struct Piece {
    pub(super) class: &'static str,
    /// How much: only the proportions matter.
    pub(super) size: u64,
    pub(super) title: String,
}

/// Columns of stacked parts.
pub(super) fn columns(title: &str, columns: &[Column]) -> Html {
    let most = columns.iter().map(|column| column.parts.iter().map(|part| part.size).sum()).max().unwrap_or(0).max(1);
    let width = COLUMN * columns.len() as u64;
    let mut html = Html::of(
        "<div class=\"columns\" role=\"group\" aria-label=\"{}\"><svg class=\"plot\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        &[&title, &width, &HEIGHT],
    );
    for quarter in 0..4 {
        let y = HEIGHT * quarter / 4;
        html.put("<line class=\"grid\" x1=\"0\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", &[&width, &y, &y]);
    }
    for (n, column) in columns.iter().enumerate() {
        let x = n as u64 * COLUMN + (COLUMN - BAR) / 2;
        let mut below = 0;
        for part in column.parts.iter().filter(|part| part.size > 0) {
            // Ends are rounded, not heights, so that the parts meet.
            let place = |size: u64| u64::try_from(u128::from(size) * u128::from(HEIGHT) / u128::from(most)).unwrap_or(HEIGHT);
            let (bottom, top) = (place(below), place(below + part.size));
            below += part.size;
            html.put(
                "<rect class=\"f-{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
                &[&part.class, &x, &(HEIGHT - top), &BAR, &(top - bottom), &part.title],
            );
        }
    }
    html.put("</svg><ol class=\"axis\">", &[]);
    for column in columns {
        let class = if column.ahead { "ahead" } else { "" };
        html.put("<li class=\"{}\"><b>{}</b><span>{}</span></li>", &[&class, &column.total, &column.label]);
    }
    html.put("</ol></div>", &[]);
    html
}

/// What a colour stands for.
pub(super) fn legend(entries: &[(&'static str, String, String)]) -> Html {
    let mut html = Html::of("<ul class=\"legend\">", &[]);
    for (class, name, value) in entries {
        html.put("<li class=\"s-{}\"><i aria-hidden=\"true\"></i>{} <b>{}</b></li>", &[class, name, value]);
    }
    html.put("</ul>", &[]);
    html
}

/// A rate against its limit, which stands at two thirds of the width.
pub(super) fn gauge(rate: Decimal, limit: Decimal) -> Html {
    const LIMIT: u64 = 667;
    let share = (rate * Decimal::from(LIMIT)).checked_div(limit).and_then(|share| share.to_u64()).unwrap_or(0);
    let class = if rate > limit { "over" } else { "within" };
    Html::of(
        "<svg class=\"gauge {}\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"bed\" width=\"1000\" height=\"10\"/>\
         <rect class=\"fill\" width=\"{}\" height=\"10\"/><line x1=\"{}\" x2=\"{}\" y1=\"0\" y2=\"10\"/></svg>",
        &[&class, &share.min(1000), &LIMIT, &LIMIT],
    )
}

/// Events a second over the last minute.
pub(super) fn pulse(values: &[u64]) -> Html {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let start = 60_usize.saturating_sub(values.len());
    let point = |(n, value): (usize, &u64)| format!("{},{}", start + n, 40 - value * 36 / most);
    let points: Vec<String> = values.iter().enumerate().map(point).collect();
    Html::of(
        "<svg class=\"pulse\" viewBox=\"0 0 59 42\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><polyline id=\"pulse\" points=\"{}\"/></svg>",
        &[&points.join(" ")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_column_meet_and_fill_the_height() {
        let part = |size| Piece { class: "completed", size, title: "<b>".into() };
        let column = Column { label: "Jan".into(), total: "3".into(), parts: vec![part(1), part(2)], ahead: false };
        let drawn = columns("t", &[column]).into_string();
        assert!(
            drawn.contains("y=\"667\" width=\"64\" height=\"333\"") && drawn.contains("y=\"0\" width=\"64\" height=\"667\""),
            "{drawn}"
        );
        assert!(drawn.contains("<title>&lt;b&gt;</title>"));
    }

    #[test]
    fn nothing_at_all_is_no_division_by_zero() {
        assert!(columns("t", &[]).into_string().contains("viewBox=\"0 0 0 1000\""));
        assert!(gauge(Decimal::ZERO, Decimal::ZERO).into_string().contains("within"));
        assert!(pulse(&[]).into_string().contains("points=\"\""));
    }

    #[test]
    fn a_rate_at_its_limit_reaches_the_mark() {
        assert!(gauge(Decimal::new(5, 1), Decimal::new(5, 1)).into_string().contains("width=\"667\""));
        assert!(gauge(Decimal::from(9), Decimal::new(5, 1)).into_string().contains("gauge over"));
    }
}
