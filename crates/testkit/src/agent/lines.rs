//! Numbered lines that show whether one is missing, torn or foreign.

/// What one line says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The attempt that wrote it.
    pub attempt: u32,
    /// Which one, from 1.
    pub number: u64,
}

const MARK: &str = "fake-agent-line ";

/// The line as it is written, with its end.
pub fn line_text(line: Line, width: usize) -> String {
    let Line { attempt, number } = line;
    let mut text = format!("{MARK}{attempt} {number} {:08x}", check_of(line));
    if text.len() + 2 < width {
        text.push(' ');
        text.extend(std::iter::repeat_n('.', width - text.len() - 1));
    }
    text.push('\n');
    text
}

/// What a line of output turns out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadLine {
    /// Not one of ours.
    Foreign,
    /// As it was written.
    Whole(Line),
    /// A whole one behind the beginning of another: the kernel may cut a write short when it kills.
    Behind(Line),
    /// Anything else.
    Damaged,
}

/// A line read back, without its end.
pub fn parse_line(text: &str) -> ReadLine {
    // A hole that was given back to the disk reads as zeros.
    let text = text.trim_start_matches('\0');
    let Some(at) = text.rfind(MARK) else {
        return ReadLine::Foreign;
    };
    let before = &text[..at];
    match whole(&text[at..]) {
        Some(line) if before.is_empty() => ReadLine::Whole(line),
        Some(line) if MARK.starts_with(before) || before.starts_with(MARK) => {
            ReadLine::Behind(line)
        }
        Some(_) | None => ReadLine::Damaged,
    }
}

fn whole(text: &str) -> Option<Line> {
    let mut fields = text.strip_prefix(MARK)?.split(' ');
    let attempt = fields.next()?.parse().ok()?;
    let number = fields.next()?.parse().ok()?;
    let line = Line { attempt, number };
    let is_checked = fields.next()? == format!("{:08x}", check_of(line));
    let is_padded = fields.all(|padding| padding.bytes().all(|byte| byte == b'.'));
    (is_checked && is_padded).then_some(line)
}

fn check_of(line: Line) -> u32 {
    let mixed = (u64::from(line.attempt) << 40 ^ line.number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line {
        attempt: 3,
        number: 41,
    };

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for width in [0, 35, 36, 37, 38, 39, 80] {
            let text = line_text(LINE, width);
            assert_eq!(parse_line(text.trim_end()), ReadLine::Whole(LINE), "{text}");
        }
        assert_eq!(line_text(LINE, 80).len(), 80);
    }

    #[test]
    fn a_torn_line_is_told_from_a_damaged_and_a_foreign_one() {
        let text = line_text(LINE, 0);
        let (text, cut) = (text.trim_end(), &text[..20]);
        assert_eq!(parse_line(&format!("{cut}{text}")), ReadLine::Behind(LINE));
        assert_eq!(parse_line(cut), ReadLine::Damaged);
        assert_eq!(parse_line(&format!("x{text}")), ReadLine::Damaged);
        assert_eq!(parse_line("something else"), ReadLine::Foreign);
    }
}
