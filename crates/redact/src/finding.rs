//! A place in a text that holds a secret, and how overlapping ones become one.

use super::formats;

/// Kinds that rules give, besides those of the published formats.
#[rustfmt::skip]
const RULE_KINDS: &[&str] = &[
    "assignment", "authorization", "azure", "basic", "bearer", "cookie", "jwt", "password", "pem",
    "twilio", "url-password", "kubernetes", "putty", "encoded", "jwk",
];

/// Whether a rule may have given this kind.
pub(super) fn is_rule_kind(kind: &[u8]) -> bool {
    RULE_KINDS.iter().any(|rule| rule.as_bytes() == kind) || formats::has_kind(kind)
}

/// How sure and how telling a rule is; of two findings in one place the smaller rank names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A value that was given as a secret.
    Known,
    /// A published format.
    Format,
    /// Looks like a token of an unknown format.
    Shape,
    /// Secret because of what stands before it.
    Context,
}

/// One secret in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundSecret<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: &'a str,
    pub(super) rank: Rank,
    /// How far the rule had to look: a text that ends here may still make the secret longer.
    pub(super) reach: usize,
    /// Quote to put around the mark: a bare JSON number becomes a string.
    pub(super) quote: Option<u8>,
}

impl<'a> FoundSecret<'a> {
    pub(super) fn new(start: usize, end: usize, kind: &'a str, rank: Rank) -> Self {
        debug_assert!(
            rank == Rank::Known || is_rule_kind(kind.as_bytes()),
            "every rule's kind is listed: {kind}"
        );
        Self {
            start,
            end,
            kind,
            rank,
            reach: end,
            quote: None,
        }
    }

    /// Grows to `start..end` as well, so that no part of either stays.
    fn absorb(&mut self, other: &FoundSecret<'a>) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.reach = self.reach.max(other.reach);
        self.quote = self.quote.and(other.quote);
        if other.rank < self.rank {
            self.kind = other.kind;
            self.rank = other.rank;
        }
    }
}

/// Sorts, joins overlaps, widens to whole characters and whole marks, and drops what is
/// nothing but marks and their quotes.
///
/// So every finding that stays takes something away that is neither a mark nor a quote, and
/// redacting again and again comes to an end.
pub(super) fn settle<'a>(
    text: &[u8],
    mut findings: Vec<FoundSecret<'a>>,
    marks: &[(usize, usize)],
) -> Vec<FoundSecret<'a>> {
    for finding in &mut findings {
        widen(text, finding, marks);
    }
    findings.retain(|finding| !is_only_marks(text, finding, marks));
    findings.sort_by_key(|finding| (finding.start, finding.end));
    let mut settled: Vec<FoundSecret<'a>> = Vec::with_capacity(findings.len());
    for finding in findings {
        match settled.last_mut() {
            Some(last) if finding.start < last.end => last.absorb(&finding),
            _ => settled.push(finding),
        }
    }
    settled
}

fn widen(text: &[u8], finding: &mut FoundSecret<'_>, marks: &[(usize, usize)]) {
    let inside_character = |at: usize| text.get(at).is_some_and(|b| b & 0xC0 == 0x80);
    // At most three continuation bytes: stray ones in program output must not drag it along.
    for _ in 0..3 {
        finding.start -= usize::from(finding.start > 0 && inside_character(finding.start));
        finding.end += usize::from(inside_character(finding.end));
    }
    for &(start, end) in overlapping(finding, marks) {
        finding.start = finding.start.min(start);
        finding.end = finding.end.max(end);
    }
    finding.reach = finding.reach.max(finding.end);
}

fn is_only_marks(text: &[u8], finding: &FoundSecret<'_>, marks: &[(usize, usize)]) -> bool {
    let marks = overlapping(finding, marks);
    let mut done = finding.start;
    for &(start, end) in marks {
        if !is_dress(&text[done..start]) {
            return false;
        }
        done = end;
    }
    !marks.is_empty() && is_dress(&text[done..finding.end])
}

/// What a mark may be wrapped in: quotes, their escapes and blanks.
fn is_dress(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| b"\"'`\\ \t".contains(b))
}

fn overlapping<'m>(finding: &FoundSecret<'_>, marks: &'m [(usize, usize)]) -> &'m [(usize, usize)] {
    let first = marks.partition_point(|&(_, end)| end <= finding.start);
    let last = marks.partition_point(|&(start, _)| start < finding.end);
    &marks[first..last.max(first)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(findings: &[FoundSecret<'_>]) -> Vec<(usize, usize, String)> {
        findings
            .iter()
            .map(|f| (f.start, f.end, f.kind.to_owned()))
            .collect()
    }

    #[test]
    fn overlaps_become_one_named_by_the_surer_rule() {
        let findings = vec![
            FoundSecret::new(4, 9, "assignment", Rank::Context),
            FoundSecret::new(6, 12, "env", Rank::Known),
            FoundSecret::new(12, 14, "jwt", Rank::Format),
        ];
        let settled = settle(b"0123456789abcdef", findings, &[]);
        assert_eq!(
            spans(&settled),
            [(4, 12, "env".to_owned()), (12, 14, "jwt".to_owned())]
        );
    }

    #[test]
    fn a_finding_never_splits_a_character() {
        let text = "aéb".as_bytes();
        let settled = settle(text, vec![FoundSecret::new(2, 3, "x", Rank::Known)], &[]);
        assert_eq!(spans(&settled), [(1, 3, "x".to_owned())]);
    }

    #[test]
    fn marks_stay_and_are_swallowed_whole() {
        let marks = [(2, 6)];
        assert!(
            settle(
                b"01[mm]67",
                vec![FoundSecret::new(3, 5, "x", Rank::Known)],
                &marks
            )
            .is_empty()
        );
        let settled = settle(
            b"01[mm]67",
            vec![FoundSecret::new(5, 7, "x", Rank::Known)],
            &marks,
        );
        assert_eq!(spans(&settled), [(2, 7, "x".to_owned())]);
    }

    #[test]
    fn a_mark_in_quotes_stays() {
        let finding = || vec![FoundSecret::new(1, 7, "x", Rank::Known)];
        assert!(settle(b"0'[mm]'7", finding(), &[(2, 6)]).is_empty());
        assert_eq!(settle(b"0-[mm]'7", finding(), &[(2, 6)]).len(), 1);
        assert_eq!(settle(b"0''''''7", finding(), &[]).len(), 1);
    }
}
