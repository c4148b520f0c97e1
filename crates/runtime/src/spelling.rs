//! What a mistyped name was meant to be.

/// The known name that a mistyped one is near to.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(name, known), known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(score, _)| *score > 0.7)
        .map(|(_, known)| known)
}
