//! Token formats that providers publish: a prefix, an alphabet and a length.
//!
//! Prefixes are compared with case. Longer prefixes stand before shorter ones of the same start.

use super::value;

/// Characters that a token's body is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    Alphanumeric,
    /// With `_`.
    Word,
    /// With `_` and `-`.
    Url,
    /// With `_`, `-` and `.`.
    Dotted,
    /// With `+`, `/` and `=`.
    Base64,
    /// With `/`, `_` and `-`: a path of a web hook.
    Path,
    Hex,
    /// `A-Z` and digits.
    Upper,
}

/// How much the prefix alone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing else starts like that.
    Prefix,
    /// The prefix must start a word.
    Word,
    /// The prefix must start a word, and the body must look random.
    Random,
}

/// One published format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) prefix: &'static str,
    pub(super) kind: &'static str,
    alphabet: Alphabet,
    len_min: usize,
    trust: Trust,
}

const fn format(
    prefix: &'static str,
    kind: &'static str,
    alphabet: Alphabet,
    len_min: usize,
    trust: Trust,
) -> Format {
    Format { prefix, kind, alphabet, len_min, trust }
}

use Alphabet::{Alphanumeric, Base64, Dotted, Hex, Path, Upper, Url, Word};

/// The table. Minimal lengths are below the published ones where tokens may be torn.
pub(super) const FORMATS: &[Format] = &[
    format("github_pat_", "github", Word, 22, Trust::Prefix),
    format("ghp_", "github", Alphanumeric, 20, Trust::Prefix),
    format("gho_", "github", Alphanumeric, 20, Trust::Prefix),
    format("ghu_", "github", Alphanumeric, 20, Trust::Prefix),
    format("ghs_", "github", Dotted, 20, Trust::Prefix),
    format("ghr_", "github", Alphanumeric, 20, Trust::Prefix),
    format("glpat-", "gitlab", Dotted, 16, Trust::Prefix),
    format("gldt-", "gitlab", Url, 16, Trust::Word),
    format("glrt-", "gitlab", Dotted, 16, Trust::Word),
    format("glcbt-", "gitlab", Url, 16, Trust::Word),
    format("glptt-", "gitlab", Url, 16, Trust::Word),
    format("glsoat-", "gitlab", Url, 16, Trust::Word),
    format("gloas-", "gitlab", Url, 16, Trust::Word),
    format("glagent-", "gitlab", Url, 20, Trust::Word),
    format("AKIA", "aws", Upper, 16, Trust::Word),
    format("ASIA", "aws", Upper, 16, Trust::Word),
    format("ABIA", "aws", Upper, 16, Trust::Word),
    format("AIza", "google", Url, 30, Trust::Prefix),
    format("ya29.", "google", Url, 20, Trust::Prefix),
    format("GOCSPX-", "google", Url, 20, Trust::Prefix),
    format("1//0", "google", Url, 40, Trust::Word),
    format("sk-ant-", "anthropic", Url, 16, Trust::Prefix),
    format("sk-proj-", "openai", Url, 16, Trust::Prefix),
    format("sk-svcacct-", "openai", Url, 16, Trust::Prefix),
    format("sk-admin-", "openai", Url, 20, Trust::Prefix),
    format("sk-or-v1-", "openrouter", Hex, 32, Trust::Prefix),
    format("sk-", "openai", Url, 20, Trust::Random),
    format("xoxb-", "slack", Url, 10, Trust::Prefix),
    format("xoxp-", "slack", Url, 10, Trust::Prefix),
    format("xoxa-", "slack", Url, 10, Trust::Prefix),
    format("xoxr-", "slack", Url, 10, Trust::Prefix),
    format("xoxs-", "slack", Url, 10, Trust::Prefix),
    format("xoxc-", "slack", Url, 10, Trust::Prefix),
    format("xoxd-", "slack", Url, 10, Trust::Prefix),
    format("xoxe-", "slack", Url, 10, Trust::Prefix),
    format("xoxe.xoxb-", "slack", Dotted, 5, Trust::Prefix),
    format("xoxe.xoxp-", "slack", Dotted, 5, Trust::Prefix),
    format("xapp-", "slack", Url, 20, Trust::Prefix),
    format("hooks.slack.com/services/", "slack", Path, 20, Trust::Prefix),
    format("hooks.slack.com/workflows/", "slack", Path, 20, Trust::Prefix),
    format("discord.com/api/webhooks/", "discord", Path, 30, Trust::Prefix),
    format("discordapp.com/api/webhooks/", "discord", Path, 30, Trust::Prefix),
    format("sk_live_", "stripe", Alphanumeric, 16, Trust::Prefix),
    format("sk_test_", "stripe", Alphanumeric, 16, Trust::Prefix),
    format("rk_live_", "stripe", Alphanumeric, 16, Trust::Prefix),
    format("rk_test_", "stripe", Alphanumeric, 16, Trust::Prefix),
    format("whsec_", "stripe", Base64, 20, Trust::Prefix),
    format("sk_", "elevenlabs", Hex, 40, Trust::Word),
    format("SG.", "sendgrid", Dotted, 40, Trust::Word),
    format("npm_", "npm", Alphanumeric, 30, Trust::Word),
    format("pypi-Ag", "pypi", Url, 50, Trust::Prefix),
    format("cio", "crates-io", Alphanumeric, 32, Trust::Random),
    format("hf_", "huggingface", Alphanumeric, 30, Trust::Word),
    format("api_org_", "huggingface", Alphanumeric, 30, Trust::Word),
    format("gsk_", "groq", Alphanumeric, 30, Trust::Word),
    format("xai-", "xai", Alphanumeric, 40, Trust::Word),
    format("r8_", "replicate", Alphanumeric, 30, Trust::Word),
    format("dop_v1_", "digitalocean", Hex, 32, Trust::Prefix),
    format("doo_v1_", "digitalocean", Hex, 32, Trust::Prefix),
    format("dor_v1_", "digitalocean", Hex, 32, Trust::Prefix),
    format("dckr_pat_", "docker", Url, 16, Trust::Prefix),
    format("dckr_oat_", "docker", Url, 16, Trust::Prefix),
    format("shpat_", "shopify", Hex, 24, Trust::Prefix),
    format("shpca_", "shopify", Hex, 24, Trust::Prefix),
    format("shppa_", "shopify", Hex, 24, Trust::Prefix),
    format("shpss_", "shopify", Hex, 24, Trust::Prefix),
    format("key-", "mailgun", Hex, 32, Trust::Word),
    format("dapi", "databricks", Hex, 32, Trust::Word),
    format("hvs.", "vault", Url, 20, Trust::Word),
    format("hvb.", "vault", Url, 20, Trust::Word),
    format("hvr.", "vault", Url, 20, Trust::Word),
    format("lin_api_", "linear", Alphanumeric, 24, Trust::Prefix),
    format("lin_oauth_", "linear", Alphanumeric, 24, Trust::Prefix),
    format("ntn_", "notion", Alphanumeric, 30, Trust::Word),
    format("secret_", "notion", Alphanumeric, 40, Trust::Random),
    format("pplx-", "perplexity", Alphanumeric, 30, Trust::Word),
    format("AGE-SECRET-KEY-1", "age", Upper, 30, Trust::Prefix),
    format("AGE-SECRET-KEY-PQ-1", "age", Upper, 30, Trust::Prefix),
    format("nvapi-", "nvidia", Url, 40, Trust::Word),
    format("tvly-", "tavily", Url, 20, Trust::Random),
    format("figd_", "figma", Url, 30, Trust::Word),
    format("PMAK-", "postman", Url, 40, Trust::Word),
    format("sntrys_", "sentry", Base64, 40, Trust::Word),
    format("sntryu_", "sentry", Hex, 40, Trust::Word),
    format("glsa_", "grafana", Word, 30, Trust::Word),
    format("glc_", "grafana", Base64, 40, Trust::Word),
    format("NRAK-", "newrelic", Upper, 20, Trust::Word),
    format("dp.pt.", "doppler", Alphanumeric, 30, Trust::Word),
    format("dp.st.", "doppler", Dotted, 30, Trust::Word),
    format("rubygems_", "rubygems", Hex, 40, Trust::Word),
    format("ATATT3", "atlassian", Base64, 40, Trust::Word),
    format("ATBB", "atlassian", Alphanumeric, 28, Trust::Random),
    format("sq0atp-", "square", Url, 20, Trust::Word),
    format("sq0csp-", "square", Url, 30, Trust::Word),
    format("LTAI", "alibaba", Alphanumeric, 16, Trust::Random),
    format("tskey-", "tailscale", Url, 20, Trust::Word),
    format("sbp_", "supabase", Hex, 36, Trust::Word),
    format("sb_secret_", "supabase", Url, 16, Trust::Word),
    format("pscale_tkn_", "planetscale", Url, 30, Trust::Word),
    format("pscale_pw_", "planetscale", Url, 30, Trust::Word),
    format("lsv2_", "langsmith", Word, 40, Trust::Word),
    format("CCIPAT_", "circleci", Word, 40, Trust::Word),
    format("bkua_", "buildkite", Hex, 36, Trust::Word),
    format("fm2_", "fly", Base64, 60, Trust::Random),
];

const HEAD_LEN: usize = 256;

/// End of the n-th format's token that starts at `start`, where its prefix stands.
pub(super) fn token_end(text: &[u8], start: usize, format: &Format) -> Option<usize> {
    if format.trust != Trust::Prefix && !starts_word(text, start) {
        return None;
    }
    let body_start = start + format.prefix.len();
    let rest = &text[body_start..];
    // Judged by a bounded head, so that a run that is no token costs little wherever it is tried.
    let head = run(&rest[..rest.len().min(HEAD_LEN)], format.alphabet);
    if head.len() < format.len_min || (is_id(format) && head.len() != format.len_min) {
        return None;
    }
    let is_placeholder = value::is_monotonous(head) && !has_github_checksum(head);
    let is_prose = format.trust == Trust::Random && !value::is_random(head);
    let is_token = !is_placeholder && !is_prose;
    is_token.then(|| body_start + run(rest, format.alphabet).len())
}

/// Provider of a value that is one token from end to end.
pub(super) fn kind_of(value: &[u8]) -> Option<&'static str> {
    let whole = |format: &&Format| {
        value.starts_with(format.prefix.as_bytes())
            && token_end(value, 0, format) == Some(value.len())
    };
    FORMATS.iter().find(whole).map(|format| format.kind)
}

/// Whether a format is of this kind.
pub(super) fn has_kind(kind: &[u8]) -> bool {
    FORMATS.iter().any(|format| format.kind.as_bytes() == kind)
}

/// Access key ids of AWS have one length; longer runs in capitals are something else.
fn is_id(format: &Format) -> bool {
    format.kind == "aws"
}

fn run(text: &[u8], alphabet: Alphabet) -> &[u8] {
    let len = text.iter().take_while(|b| is_in(**b, alphabet)).count();
    let trailing = text[..len].iter().rev().take_while(|b| matches!(b, b'.' | b'/')).count();
    &text[..len - trailing]
}

fn is_in(byte: u8, alphabet: Alphabet) -> bool {
    match alphabet {
        Alphanumeric => byte.is_ascii_alphanumeric(),
        Word => byte.is_ascii_alphanumeric() || byte == b'_',
        Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
        Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
        Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-'),
        Path => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/'),
        Hex => byte.is_ascii_hexdigit(),
        Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
    }
}

/// Whether a word starts at `at`, also behind an escape such as `\n` or `%3D`.
pub(super) fn starts_word(text: &[u8], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).map(|i| text[i]);
    let Some(last) = before(1) else { return true };
    let is_escape = before(2) == Some(b'\\') && matches!(last, b'n' | b'r' | b't');
    let is_percent = before(3) == Some(b'%') && last.is_ascii_hexdigit();
    !last.is_ascii_alphanumeric() || is_escape || is_percent
}

/// Whether the last six characters are the CRC-32 of the others in base 62, as GitHub makes
/// them. Tells a real token from a made-up one; a wrong sum does not make it harmless.
fn has_github_checksum(body: &[u8]) -> bool {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if body.len() != 36 {
        return false;
    }
    let (random, sum) = body.split_at(30);
    let mut rest = crc32(random) as usize;
    sum.iter().rev().all(|digit| {
        let expected = DIGITS[rest % 62];
        rest /= 62;
        *digit == expected
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc32_comes_out() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn a_right_checksum_beats_a_monotonous_body() {
        let zeros = [b'0'; 30];
        let mut sum = [b'0'; 6];
        let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut rest = crc32(&zeros) as usize;
        for slot in sum.iter_mut().rev() {
            *slot = digits[rest % 62];
            rest /= 62;
        }
        let right = [b"ghp_".as_slice(), &zeros, &sum].concat();
        let wrong = [b"ghp_".as_slice(), &zeros, b"000000"].concat();
        assert_eq!(kind_of(&right), Some("github"));
        assert_eq!(kind_of(&wrong), None);
    }

    #[test]
    fn a_word_starts_behind_escapes() {
        assert!(starts_word(b"hf_", 0));
        assert!(starts_word(br"\nhf_", 2));
        assert!(starts_word(b"%3Dhf_", 3));
        assert!(!starts_word(b"nhf_", 1));
    }
}
