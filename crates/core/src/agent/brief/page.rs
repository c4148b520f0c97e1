//! A page that never grows beyond its bounds, with its last lines set aside ahead.

use super::super::plain::{clipped, plain_line};
use super::{BRIEF_BYTES_MAX, BRIEF_LINES_MAX};

/// Most bytes of one line.
pub(super) const LINE_BYTES_MAX: usize = 280;
/// Most bytes of one thing in quotes.
const QUOTED_BYTES_MAX: usize = 100;
const FENCE: [&str; 2] = ["```text", "```"];

/// Lines up to a limit; what does not fit is left out.
pub(super) struct BriefPage {
    lines: Vec<String>,
    closing: Vec<String>,
    lines_left: usize,
    bytes_left: usize,
    /// Written as soon as a line follows it.
    heading: Option<String>,
}

impl BriefPage {
    /// An empty page that will end with these lines.
    pub(super) fn with_closing(closing: Vec<String>) -> Self {
        let mut page = Self {
            lines: Vec::new(),
            closing: Vec::new(),
            lines_left: BRIEF_LINES_MAX,
            bytes_left: BRIEF_BYTES_MAX,
            heading: None,
        };
        for line in closing {
            page.spend(&line);
            page.closing.push(line);
        }
        page
    }

    /// Stands over the lines that follow, when there are any.
    pub(super) fn heading(&mut self, text: &str) {
        self.heading = Some(format!("## {text}"));
    }

    /// One line, clipped.
    pub(super) fn line(&mut self, text: &str) {
        let text = clipped(text, LINE_BYTES_MAX);
        let heading = self.heading.take();
        if self.has_room(heading.iter().chain([&text])) {
            heading
                .into_iter()
                .chain([text])
                .for_each(|line| self.push(line));
        }
    }

    /// Lines that are not ours: fenced, and each marked, so that none can end the fence.
    pub(super) fn block(&mut self, heading: &str, quoted: &[String]) {
        self.heading = None;
        let frame = [
            format!("## {heading}"),
            FENCE[0].to_owned(),
            FENCE[1].to_owned(),
        ];
        let mut inside = Vec::new();
        // The newest lines matter most.
        for line in quoted.iter().rev() {
            let line = format!("    | {}", clipped(line, LINE_BYTES_MAX - 6));
            if !self.has_room(frame.iter().chain(&inside).chain([&line])) {
                break;
            }
            inside.push(line);
        }
        if inside.is_empty() {
            return;
        }
        let [heading, open, close] = frame;
        let lines = [heading, open]
            .into_iter()
            .chain(inside.into_iter().rev())
            .chain([close]);
        lines.for_each(|line| self.push(line));
    }

    /// The whole text.
    pub(super) fn finish(mut self) -> String {
        self.lines.append(&mut self.closing);
        self.lines.join("\n") + "\n"
    }

    fn has_room<'l>(&self, lines: impl Iterator<Item = &'l String>) -> bool {
        let (count, bytes) = lines.fold((0, 0), |(n, sum), line| (n + 1, sum + line.len() + 1));
        count <= self.lines_left && bytes <= self.bytes_left
    }

    fn push(&mut self, line: String) {
        self.spend(&line);
        self.lines.push(line);
    }

    fn spend(&mut self, line: &str) {
        self.lines_left = self.lines_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(line.len() + 1);
    }
}

/// The same as code, in marks that it cannot end.
pub(super) fn code(text: &str) -> String {
    let text = plain_line(&text.replace('\n', " ")).replace('`', "'");
    format!("`{}`", clipped(text.trim(), QUOTED_BYTES_MAX))
}

/// A text that is not ours, on one line and in quotes that it cannot end.
pub(super) fn quoted(text: &str) -> String {
    let text = plain_line(&text.replace('\n', " ")).replace('"', "'");
    format!("\"{}\"", clipped(text.trim(), QUOTED_BYTES_MAX))
}
