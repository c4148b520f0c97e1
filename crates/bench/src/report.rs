//! The result of one bench: a table for people, the same as JSON for programs.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use crate::machine::Machine;
use crate::row::{Figure, RatioOf, Row, Verdict};

const COLUMNS: usize = 9;

/// Above this spread a figure says more about the machine than about the code.
const SPREAD_CALM_MAX: f64 = 0.3;

/// One bench's table, with what it was measured on.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    bench: &'static str,
    title: &'static str,
    quick: bool,
    machine: Machine,
    /// The widest spread of any figure or floor.
    noise: f64,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(
        bench: &'static str,
        title: &'static str,
        quick: bool,
        machine: Machine,
        rows: Vec<Row>,
    ) -> Report {
        let figures = rows.iter().flat_map(figures_of);
        let noise = figures.map(Figure::spread).fold(0.0, f64::max);
        Report {
            bench,
            title,
            quick,
            machine,
            noise,
            rows,
        }
    }

    /// Whether every target was measured and met.
    pub(crate) fn all_met(&self) -> bool {
        self.rows
            .iter()
            .all(|row| matches!(row.verdict, Verdict::Met | Verdict::NoTarget))
    }

    /// Writes `NAME.json` in `folder`.
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        let file = folder.join(format!("{}.json", self.bench));
        let text = serde_json::to_string_pretty(self)?;
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    }

    /// The table as people read it.
    pub(crate) fn text(&self) -> String {
        let header = [
            "",
            "p50",
            "p10–p90",
            "floor",
            "p50",
            "ratio",
            "at best",
            "target",
            "",
        ];
        let mut lines = vec![header.map(String::from)];
        lines.extend(self.rows.iter().map(cells));
        let quick = if self.quick {
            " (quick: too short to judge by)"
        } else {
            ""
        };
        let mut text = format!("{}{quick}\n{}\n\n", self.title, self.machine.text());
        for line in &lines {
            text.push_str(&aligned(line, &lines));
        }
        for row in &self.rows {
            if let Some(note) = &row.note {
                text.push_str(&format!("note: {}: {note}\n", row.what));
            }
        }
        text.push_str(&self.summary());
        text
    }

    fn summary(&self) -> String {
        let count = |verdict| {
            self.rows
                .iter()
                .filter(|row| row.verdict == verdict)
                .count()
        };
        let calm = self.noise <= SPREAD_CALM_MAX;
        format!(
            "\n{} met, {} missed, {} unclear, {} not measured; widest spread {:.0} %{}\n",
            count(Verdict::Met),
            count(Verdict::Missed),
            count(Verdict::Unclear),
            count(Verdict::NotMeasured),
            self.noise * 100.0,
            if calm {
                ""
            } else {
                ": a noisy machine, measure again before judging"
            },
        )
    }
}

fn figures_of(row: &Row) -> impl Iterator<Item = &Figure> {
    row.figure
        .iter()
        .chain(row.floor.as_ref().map(|floor| &floor.figure))
}

fn cells(row: &Row) -> [String; COLUMNS] {
    let figure = row.figure.as_ref();
    let floor = row.floor.as_ref();
    [
        row.what.clone(),
        figure.map_or("–".into(), |some| {
            format!("{} {}", short(some.value), row.unit)
        }),
        figure.map_or(String::new(), |some| {
            format!("{}–{}", short(some.p10), short(some.p90))
        }),
        floor.map_or(String::new(), |some| some.name.clone()),
        floor.map_or(String::new(), |some| short(some.figure.value)),
        row.ratio.map_or(String::new(), |ratio| match row.ratio_of {
            RatioOf::FigureToFloor => format!("{} ×", short(ratio)),
            RatioOf::FloorToFigure => format!("{} × faster", short(ratio)),
        }),
        row.ratio_at_best
            .map_or(String::new(), |ratio| format!("{} ×", short(ratio))),
        row.target.clone().unwrap_or_default(),
        match row.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Unclear => "UNCLEAR",
            Verdict::NotMeasured => "NOT MEASURED",
            Verdict::NoTarget => "",
        }
        .into(),
    ]
}

fn aligned(line: &[String; COLUMNS], all: &[[String; COLUMNS]]) -> String {
    let mut text = String::new();
    for (column, cell) in line.iter().enumerate() {
        let wide = all
            .iter()
            .map(|other| other[column].chars().count())
            .max()
            .unwrap_or(0);
        let is_number = matches!(column, 1 | 2 | 4..=6);
        if is_number {
            text.push_str(&format!("{cell:>wide$}  "));
        } else {
            text.push_str(&format!("{cell:<wide$}  "));
        }
    }
    format!("{}\n", text.trim_end())
}

/// Three digits that matter, whole numbers from a hundred on.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
