//! Our text inside a file that belongs to somebody else: finding, judging, putting in, taking out.
//!
//! Works on bytes: whatever is around the block stays as it is. The begin marker holds the text's
//! version and hash, so that an older text and an edited one can be told apart.

use std::ops::Range;

const BEGIN: &[u8] = b"<!-- relight:begin";
const END: &[u8] = b"<!-- relight:end";
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text of ours as this version knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edition {
    /// Raised whenever the text changes.
    pub(super) version: u32,
    /// Lines ending with LF.
    pub(super) text: &'static str,
}

/// What is found of our text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::verbs) enum State {
    /// Not there.
    Absent,
    /// There, and what this version would write.
    Current,
    /// There as an earlier version wrote it.
    Outdated { version: u32 },
    /// There as a later version wrote it.
    Newer { version: u32 },
    /// Changed by somebody since it was written.
    Edited,
    /// The markers do not fit together.
    Broken { why: &'static str },
}

impl State {
    /// The word in answers.
    pub(in crate::verbs) fn as_str(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Current => "current",
            Self::Outdated { .. } => "outdated",
            Self::Newer { .. } => "newer",
            Self::Edited => "edited",
            Self::Broken { .. } => "broken",
        }
    }

    /// Whether agents read what they should.
    pub(in crate::verbs) fn is_good(&self) -> bool {
        match self {
            Self::Current | Self::Newer { .. } => true,
            Self::Absent | Self::Outdated { .. } | Self::Edited | Self::Broken { .. } => false,
        }
    }
}

/// Judges a text by its stamp.
pub(super) fn judge(edition: Edition, stamp: Option<MarkerStamp>, text: &[u8]) -> State {
    match stamp {
        Some(stamp) if stamp.hash == hash(text) => {
            if stamp.version > edition.version {
                State::Newer {
                    version: stamp.version,
                }
            } else if stamp.hash == hash(edition.text.as_bytes()) {
                State::Current
            } else {
                State::Outdated {
                    version: stamp.version,
                }
            }
        }
        Some(_) | None => State::Edited,
    }
}

/// The state of the block in this content.
pub(super) fn state(edition: Edition, content: &[u8]) -> State {
    match find(content) {
        Ok(None) => State::Absent,
        Ok(Some(block)) => judge(edition, block.stamp, &content[block.text]),
        Err(why) => State::Broken { why },
    }
}

/// The block alone, with LF.
pub(super) fn block(edition: Edition) -> String {
    let stamp = MarkerStamp::of(edition);
    format!(
        "<!-- relight:begin {stamp} -->\n{}<!-- relight:end -->\n",
        edition.text
    )
}

/// The content with the block as it should be: in the old one's place, else at the end after one
/// line end. The caller made sure that the markers fit together.
pub(super) fn put(edition: Edition, content: &[u8]) -> Vec<u8> {
    let ours = block(edition);
    match find(content).ok().flatten() {
        Some(old) => {
            let line_end = LineEnd::of(&content[old.whole.clone()]);
            let ours = line_end.write(ours.trim_end());
            [
                &content[..old.whole.start],
                &ours,
                &content[old.whole.end..],
            ]
            .concat()
        }
        None => {
            let line_end = LineEnd::of(content);
            let gap = if content.is_empty() { "" } else { "\n" };
            [content, &line_end.write(gap), &line_end.write(&ours)].concat()
        }
    }
}

/// The content without the block and without the line ends that `put` added.
pub(super) fn take_out(content: &[u8]) -> Vec<u8> {
    let Some(block) = find(content).ok().flatten() else {
        return content.to_vec();
    };
    let (mut before, after) = (&content[..block.whole.start], &content[block.whole.end..]);
    let after = after
        .strip_prefix(b"\r\n")
        .or_else(|| after.strip_prefix(b"\n"))
        .unwrap_or(after);
    let is_last = after.is_empty();
    let shorter = before
        .strip_suffix(b"\r\n")
        .or_else(|| before.strip_suffix(b"\n"));
    let shorter = shorter.unwrap_or(before);
    let is_blank_line = shorter.ends_with(b"\n");
    if is_last || is_blank_line {
        before = shorter;
    }
    [before, after].concat()
}

/// What the marker says about the text: `v1 0123456789abcdef`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkerStamp {
    version: u32,
    hash: String,
}

impl MarkerStamp {
    pub(super) fn of(edition: Edition) -> Self {
        Self {
            version: edition.version,
            hash: hash(edition.text.as_bytes()),
        }
    }

    /// Reads the rest of a marker line.
    pub(super) fn read(rest: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(rest).ok()?.trim().strip_suffix("-->")?;
        let (version, hash) = rest.trim().split_once(' ')?;
        let version = version.strip_prefix('v')?.parse().ok()?;
        Some(Self {
            version,
            hash: hash.to_owned(),
        })
    }
}

impl std::fmt::Display for MarkerStamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{} {}", self.version, self.hash)
    }
}

/// Line ends do not count: version control changes them on the way.
fn hash(text: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in text.split(|byte| *byte == b'\r') {
        hasher.update(part);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

struct Block {
    /// From the begin marker to the end marker, without the last line end.
    whole: Range<usize>,
    /// Between the markers' lines.
    text: Range<usize>,
    stamp: Option<MarkerStamp>,
}

/// Markers count only when they start their line.
fn find(content: &[u8]) -> Result<Option<Block>, &'static str> {
    let mut begin: Option<(usize, usize, Option<MarkerStamp>)> = None;
    let mut found: Option<Block> = None;
    let mut at = 0;
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let line = if start == 0 {
            line.strip_prefix(UTF8_MARK).unwrap_or(line)
        } else {
            line
        };
        let marker = line.trim_ascii();
        let indent = end - start - line.trim_ascii_start().len();
        if let Some(rest) = marker.strip_prefix(BEGIN) {
            if begin.is_some() || found.is_some() {
                return Err("it has more than one begin marker");
            }
            begin = Some((start + indent, end, MarkerStamp::read(rest)));
        } else if marker.starts_with(END) {
            let (start_of_block, text_start, stamp) = begin
                .take()
                .ok_or("it has an end marker without a begin marker")?;
            let whole = start_of_block..start + indent + marker.len();
            found = Some(Block {
                whole,
                text: text_start..start,
                stamp,
            });
        }
    }
    if begin.is_some() {
        return Err("its end marker is missing");
    }
    Ok(found)
}

#[derive(Debug, Clone, Copy)]
enum LineEnd {
    Lf,
    CrLf,
}

impl LineEnd {
    /// Which one most lines have.
    fn of(content: &[u8]) -> Self {
        let lines = content.iter().filter(|byte| **byte == b'\n').count();
        let with_cr = content.windows(2).filter(|pair| pair == b"\r\n").count();
        if with_cr * 2 > lines {
            Self::CrLf
        } else {
            Self::Lf
        }
    }

    fn write(self, text: &str) -> Vec<u8> {
        match self {
            Self::Lf => text.as_bytes().to_vec(),
            Self::CrLf => text.replace('\n', "\r\n").into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Edition = Edition {
        version: 1,
        text: "first\ntext\n",
    };
    const TWO: Edition = Edition {
        version: 2,
        text: "second\n",
    };

    #[test]
    fn put_and_take_out_give_back_every_byte() {
        let around: [&[u8]; 9] = [
            b"",
            b"no line end",
            b"# Title\n",
            b"# Title\n\n\n",
            b"# Title\r\ntext\r\n",
            b"mixed\r\nends\nhere\n",
            b"\xef\xbb\xbf# with a mark\n",
            b"not utf-8 \xff\xfe\n",
            b"\n",
        ];
        for content in around {
            let with = put(ONE, content);
            assert!(with.starts_with(content));
            assert_eq!(state(ONE, &with), State::Current);
            assert_eq!(put(ONE, &with), with, "idempotent");
            assert_eq!(
                take_out(&with),
                content,
                "{:?}",
                String::from_utf8_lossy(content)
            );
        }
    }

    #[test]
    fn an_update_stays_in_its_place() {
        let old = [
            b"above\r\n\r\n",
            &*put(ONE, b"").replace_line_ends(),
            b"below\r\n",
        ]
        .concat();
        assert_eq!(state(TWO, &old), State::Outdated { version: 1 });
        let new = put(TWO, &old);
        assert_eq!(state(TWO, &new), State::Current);
        assert!(new.starts_with(b"above\r\n\r\n<!-- relight:begin v2 "));
        assert!(new.ends_with(b"\r\nsecond\r\n<!-- relight:end -->\r\nbelow\r\n"));
        assert_eq!(take_out(&new), b"above\r\nbelow\r\n");
    }

    #[test]
    fn taking_out_never_joins_two_lines() {
        let content = [b"above\n", &*put(ONE, b""), b"below\n"].concat();
        assert_eq!(take_out(&content), b"above\nbelow\n");
    }

    #[test]
    fn older_newer_and_edited_are_told_apart() {
        let with = put(ONE, b"");
        assert_eq!(state(TWO, &with), State::Outdated { version: 1 });
        assert_eq!(state(ONE, &put(TWO, b"")), State::Newer { version: 2 });
        let edited = String::from_utf8(with).unwrap().replace("text", "words");
        assert_eq!(state(ONE, edited.as_bytes()), State::Edited);
        let no_stamp = edited.replace("v1", "");
        assert_eq!(state(ONE, no_stamp.as_bytes()), State::Edited);
        assert_eq!(
            state(ONE, b"talks of <!-- relight:begin v1 --> only\n"),
            State::Absent
        );
    }

    #[test]
    fn markers_that_do_not_fit_are_named() {
        let with = String::from_utf8(put(ONE, b"")).unwrap();
        let why = |content: &str| match state(ONE, content.as_bytes()) {
            State::Broken { why } => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            why(&with.replace("relight:end", "end")),
            "its end marker is missing"
        );
        assert_eq!(
            why(&format!("{with}{with}")),
            "it has more than one begin marker"
        );
        assert_eq!(
            why("<!-- relight:end -->"),
            "it has an end marker without a begin marker"
        );
    }

    trait ReplaceLineEnds {
        fn replace_line_ends(&self) -> Vec<u8>;
    }

    impl ReplaceLineEnds for Vec<u8> {
        fn replace_line_ends(&self) -> Vec<u8> {
            String::from_utf8_lossy(self)
                .replace('\n', "\r\n")
                .into_bytes()
        }
    }
}
