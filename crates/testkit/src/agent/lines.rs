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
pub(super) fn text_of(line: Line, width: usize) -> String {
    let Line { attempt, number } = line;
    let mut text = format!("{MARK}{attempt} {number} {:08x}", check_of(line));
    if text.len() + 2 < width {
        text.push(' ');
        text.extend(std::iter::repeat_n('.', width - text.len() - 1));
    }
    text.push('\n');
    text
}

/// A line read back, without its end: none when it is not one of ours, an error when it is damaged.
pub fn parse_line(text: &str) -> Option<Result<Line, String>> {
    // A hole that was given back to the disk reads as zeros.
    let text = text.trim_start_matches('\0');
    let at = text.find(MARK)?;
    Some(if at == 0 { whole(text) } else { Err(format!("torn: {text:?}")) })
}

fn whole(text: &str) -> Result<Line, String> {
    let damaged = || format!("damaged: {text:?}");
    let rest = text.strip_prefix(MARK).ok_or_else(damaged)?;
    let mut fields = rest.split(' ');
    let mut field = || fields.next().ok_or_else(damaged);
    let attempt = field()?.parse().map_err(|_| damaged())?;
    let number = field()?.parse().map_err(|_| damaged())?;
    let line = Line { attempt, number };
    let is_checked = field()? == format!("{:08x}", check_of(line));
    let is_padded = fields.all(|padding| padding.bytes().all(|byte| byte == b'.'));
    if is_checked && is_padded { Ok(line) } else { Err(damaged()) }
}

fn check_of(line: Line) -> u32 {
    let mixed = (u64::from(line.attempt) << 40 ^ line.number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { attempt: 3, number: 41 };

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for width in [0, 35, 36, 37, 38, 39, 80] {
            let text = text_of(LINE, width);
            assert_eq!(parse_line(text.trim_end_matches('\n')), Some(Ok(LINE)), "{text}");
        }
        assert_eq!(text_of(LINE, 80).len(), 80);
    }

    #[test]
    fn a_torn_line_is_damaged_and_a_foreign_one_is_nobodys() {
        let text = text_of(LINE, 0);
        let torn = format!("{}{text}", &text[..20]);
        assert!(matches!(parse_line(torn.trim_end()), Some(Err(_))));
        assert!(matches!(parse_line(&format!("x{}", text.trim_end())), Some(Err(_))));
        assert_eq!(parse_line("something else"), None);
    }
}
