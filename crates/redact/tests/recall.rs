//! How many secrets are found, and how much is marked that is none, over random vectors by shape.
//!
//! Each vector is a published shape filled with random characters from a seed; nothing is copied from the
//! test data of other scanners. The shapes of `HELD_OUT` and `HELD_OUT_VENDORS` were written down after the
//! rules were done; the rules are not to be tuned for them.

use std::fmt::Write as _;
use std::path::Path;

use relight_redact::{MarkKey, Redactor};

const ROUNDS: u64 = 2;
/// A piece of a secret this long that is left counts as missed.
const PIECE_LEN: usize = 10;

/// Splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = usize::try_from(self.next() % from.len() as u64).expect("smaller than a length");
        &from[at]
    }

    /// Fills a shape: `{A36}` are 36 letters and digits.
    fn fill(&mut self, shape: &str) -> String {
        let mut out = String::new();
        let mut rest = shape;
        while let Some((before, behind)) = rest.split_once('{') {
            let (class, behind) = behind.split_once('}').expect("a shape closes its braces");
            let (class, count) = class.split_at(1);
            let alphabet: &[u8] = match class {
                "A" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "a" => b"abcdefghijklmnopqrstuvwxyz0123456789",
                "U" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
                "h" => b"0123456789abcdef",
                "H" => b"0123456789ABCDEF",
                "d" => b"0123456789",
                "l" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                "b" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
                "B" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
                other => panic!("no class {other}"),
            };
            out += before;
            for _ in 0..count.parse::<usize>().expect("a shape counts") {
                out.push(char::from(*self.pick(alphabet)));
            }
            rest = behind;
        }
        out + rest
    }
}

const UUID: &str = "{h8}-{h4}-{h4}-{h4}-{h12}";

/// Tokens with a mark of their own.
#[rustfmt::skip]
const SHAPES: &[&str] = &[
    "ghp_{A36}", "gho_{A36}", "ghs_{A36}", "ghr_{A36}", "github_pat_{A22}_{A59}", "glpat-{b20}",
    "gldt-{b20}", "glrt-{b20}", "glptt-{h40}", "GR1348941{b20}", "AKIA{U16}", "ASIA{U16}", "AIza{b35}",
    "ya29.{b60}", "GOCSPX-{b28}", "sk-ant-api03-{b93}AA", "sk-proj-{b74}T3BlbkFJ{b74}",
    "sk-{A20}T3BlbkFJ{A20}", "xoxb-{d12}-{d12}-{A24}", "xoxp-{d12}-{d12}-{d12}-{h32}", "xapp-1-{U11}-{d13}-{h64}",
    "https://hooks.slack.com/services/T{U8}/B{U8}/{A24}", "sk_live_{A24}", "rk_test_{A24}", "whsec_{A32}",
    "SG.{b22}.{b43}", "npm_{A36}", "pypi-AgEIcHlwaS5vcmc{b80}", "hf_{l34}", "gsk_{A52}", "xai-{A80}",
    "r8_{A37}", "dop_v1_{h64}", "dckr_pat_{b27}", "shpat_{h32}", "key-{h32}", "dapi{h32}", "hvs.{b90}",
    "lin_api_{A40}", "ntn_{d11}{A35}", "pplx-{A48}", "AGE-SECRET-KEY-1{U58}", "nvapi-{b64}",
    "tskey-auth-{A12}-{A32}", "{d10}:AA{b33}", "{A3}8Q~{b34}", "NRAK-{U27}", "NRII-{a32}", "PMAK-{h24}-{h34}",
    "M{A23}.{b6}.{b27}", "M{A25}.{b6}.{b38}", "SK{h32}", "xkeysib-{h64}-{A16}", "HRKU-AA{b58}",
    "nfp_{A36}", "{A14}.atlasv1.{b64}", "pul-{h40}", "pat{A14}.{h64}", "glsa_{A32}_{h8}", "sntrys_{B80}",
    "figd_{b40}", "ATATT3{b186}", "sq0csp-{b43}", "rubygems_{h48}", "dp.pt.{A43}", "LTAI{A20}",
    "{h32}-us14", "EAACEdEose0cBA{A120}", "EZAK{A54}", "duffel_live_{b43}", "dt0c01.{A24}.{A64}",
    "s.{A24}", "SWMKEY-1-{B43}", "STS.{A40}", "00D{A12}!AQ{A90}", "{d2}-{A64}", "acme_{A14}-{A12}_{A20}", "acme-oat-{A16}_{A16}-{A16}",
    "ey{A30}.ey{A60}.{b43}", "AC{h32}", "{d12}-{a32}.apps.googleusercontent.com",
];

/// Tokens whose shapes were written down after the rules.
#[rustfmt::skip]
const HELD_OUT: &[&str] = &[
    "ghu_{A36}", "glcbt-{A2}_{b20}", "glsoat-{b20}", "glffct-{b20}", "glimt-{b25}", "glagent-{b50}", "ABIA{U16}", "ACCA{U16}",
    "ABSK{B112}", "sk-svcacct-{b74}T3BlbkFJ{b74}", "sk-ant-admin01-{b93}AA", "sk-or-v1-{h64}", "xoxe.xoxp-1-{A163}", "xoxe-1-{A146}",
    "xoxa-2-{A30}", "https://discord.com/api/webhooks/{d18}/{b68}", "https://x.webhook.office.com/webhookb2/{h8}-{h4}-{h4}-{h4}-{h12}@{h8}-{h4}-{h4}-{h4}-{h12}/IncomingWebhook/{h32}/{h8}-{h4}-{h4}-{h4}-{h12}",
    "sk_test_{A99}", "rk_live_{A24}", "api_org_{l34}", "doo_v1_{h64}", "dor_v1_{h64}", "dckr_oat_{b32}", "shpca_{h32}", "shppa_{h32}",
    "shpss_{h32}", "hvb.{b140}", "lin_oauth_{h64}", "secret_{A43}", "tvly-{A32}", "NRJS-{h19}", "NRRA-{h42}", "N{A23}.{b6}.{b27}",
    "O{b25}.{b6}.{b38}", "xsmtpsib-{h64}-{A16}", "nfc_{A36}", "sntryu_{h64}", "glc_{B64}", "ATBB{A32}", "ATCTT3{b180}", "sq0atp-{b22}",
    "EAAA{b60}", "dp.st.dev.{A43}", "EZTK{A54}", "duffel_test_{b43}", "fio-u-{b64}", "FLWSECK_TEST-{h32}-X", "FLWPUBK_TEST-{h32}-X",
    "fo1_{b43}", "fm2_{B120}", "fm1r_{B120}", "p8e-{a32}", "A3-{U6}-{U11}-{U5}-{U5}-{U5}", "ops_eyJ{B260}", "AKCp{A69}", "cmVmd{A59}",
    "v1.0-{h24}-{h146}", "CLOJARS_{a60}", "4b1d{A38}", "CFPAT-{b43}", "dnkey-{b26}-{b52}", "pat.{b22}.{A24}.{A20}", "sat.{b22}.{A24}.{A20}",
    "pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}", "ico-{A32}", "s-s4t2ud-{h64}", "live_{h35}", "test_pub_{h31}", "pubkey-{h32}", "{A6}_{A29}_mmk",
    "API-{U26}", "sha256~{b43}", "access-sandbox-{h8}-{h4}-{h4}-{h4}-{h12}", "pscale_tkn_{b43}", "pscale_oauth_{b43}", "pscale_pw_{b43}",
    "pnu_{A36}", "rdme_{a70}", "tk-us-{b48}", "sm_aat_{A16}", "shippo_live_{h40}", "squ_{h40}", "sgp_{h16}_{h40}", "sgp_local_{h40}",
    "tfp_{A40}_{A18}", "AQVN{b37}", "t1.{A40}.{b86}", "SWMTKN-1-{a49}-{a25}", "rzp_live_{A14}", "sbp_{h40}",
    "pcsk_{A6}_{A63}", "wandb_v1_{A60}", "SUA{U55}", "$2b$12${A53}", "$6${A16}${A86}", "GOOG1E{U56}", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpN{A80}",
    "AAAAAAAAAAAAAAAAAAAAAA{A90}", "sl.{b135}", "snyk_uat.{h8}.{b60}", "bkua_{h40}", "CCIPAT_{A22}_{h40}",
    "scauth_{a12}.{a5}.acc_{a16}.{B60}", "amzn.mws.{h8}-{h4}-{h4}-{h4}-{h12}", "pk.eyJ{A57}.{A22}", "phx_{A43}", "re_{A8}_{A24}",
];

/// Services whose tokens have no mark of their own, and the shape of one.
#[rustfmt::skip]
const VENDORS: &[(&str, &str)] = &[
    ("adafruit", "{a32}"), ("airtable", "{A17}"), ("algolia", "{h32}"), ("asana", "{a32}"), ("bitbucket", "{b64}"),
    ("cloudflare", "{b40}"), ("codecov", "{a32}"), ("coinbase", "{b64}"), ("datadog", "{a40}"), ("discord", "{h64}"),
    ("dropbox", "{a15}"), ("facebook", "{h32}"), ("fastly", "{b32}"), ("heroku", UUID), ("hubspot", UUID),
    ("jira", "{a20}{h4}"), ("kucoin", "{h24}"), ("mailgun", "{h32}-{h8}-{h8}"), ("netlify", "{b43}"),
    ("okta", "00{b40}"), ("plaid", "{h30}"), ("sendbird", "{h40}"), ("snyk", UUID), ("twitch", "{a30}"),
];
#[rustfmt::skip]
const HELD_OUT_VENDORS: &[(&str, &str)] = &[
    ("adobe", "{h32}"), ("alibaba", "{a30}"), ("beamer", "b_{b44}"), ("bittrex", "{a32}"), ("meraki", "{h40}"), ("cohere", "{A40}"),
    ("confluent", "{a64}"), ("contentful", "{b43}"), ("droneci", "{a32}"), ("etsy", "{a24}"), ("finicity", "{a20}"), ("finnhub", "{a20}"),
    ("flickr", "{a32}"), ("freshbooks", "{a64}"), ("gitter", "{b40}"), ("gocardless", "live_{b40}"), ("intercom", "{b60}"), ("jfrog", "{A73}"),
    ("kraken", "{B86}"), ("launchdarkly", "{b40}"), ("linear", "{h32}"), ("linkedin", "{A16}"), ("looker", "{a24}"), ("mailchimp", "{h32}-us12"),
    ("mapbox", "pk.{a60}.{a22}"), ("mattermost", "{a26}"), ("messagebird", "{A25}"), ("nytimes", "{b32}"), ("rapidapi", "{b50}"), ("sentry", "{h64}"),
    ("sonar", "{b40}"), ("squarespace", UUID), ("sumologic", "{A64}"), ("telegram", "{d9}:A{b34}"), ("travis", "{A22}"), ("twitter", "{A45}"),
    ("yandex", "YC{b38}"), ("zendesk", "{a40}"), ("cloudant", "{h64}"), ("scraperapi", "{h32}"), ("weatherstack", "{h32}"), ("acmecorp", "{A32}"),
];

/// Where a token turns up, as `{s}`.
#[rustfmt::skip]
const PLACES: &[&str] = &[
    "{s}", "using {s} for the upload.", "\"{s}\"", "value={s} done", "[info] got `{s}`", "{\"v\":\"{s}\"}", "a\\n{s}\\nb",
    "\u{1b}[1;32m{s}\u{1b}[0m", "\u{1b}[0K{s}\n", "\\u001b[33m{s}\\u001b[0m", "x%3D{s}%26y", "<td>{s}</td>", "({s})", "x={s};y=1",
];

/// How programs and files tie a name `{n}` to a value `{s}`.
#[rustfmt::skip]
const TIES: &[&str] = &[
    "{n}={s}", "{n} = {s}", "{n}=\"{s}\"", "{n} = \"{s}\"", "{n}: {s}", "{n}: '{s}'", "\"{n}\": \"{s}\"", "  {n}: \"{s}\",", "{n} := \"{s}\"", "{n} := `{s}`",
    "export {n}='{s}'", "var {n} string = \"{s}\"", "let {n}: String = \"{s}\"", "const {n} = '{s}';", "String {n} = \"{s}\";",
    "${n} = '{s}';", "${n} .= \"{s}\"", "${n} ??= \"{s}\"", "{n} ?= {s}", "{n} => \"{s}\"", "'{n}' => '{s}',", "setx {n} {s}",
    "-D{n}={s}", "--{n}={s}", "--{n} {s}", "<{n}>{s}</{n}>", "define('{n}', '{s}');", "config.put(\"{n}\", \"{s}\")", "os.environ[\"{n}\"] = \"{s}\"",
    "#define {n} \"{s}\"", "ENV {n} {s}", "setenv {n} {s}", "{\\\"{n}\\\":\\\"{s}\\\"}", "{n}:\n  {s}", "\"{n}\":\n  \"{s}\"", "{n}: |\n  {s}\nuser: ann",
    "- name: {n}\n  value: {s}", "{\"name\": \"{n}\", \"value\": \"{s}\"}", "<add key=\"{n}\" value=\"{s}\" />", "if {n} == \"{s}\":",
    "if (\"{s}\" != {n}) {", "char {n}[64] = \"{s}\";", "NSString *{n} = @\"{s}\";", "{n}%3D{s}", "\u{1b}[36m{n}\u{1b}[0m={s}", "{n}={s}&x=1",
    "{n} = Some(\"{s}\")", "std::string {n}(\"{s}\");", "{n}: !!str {s}", "{n} = <<EOF\n{s}\nEOF\n", "{n}=<<-'END'\n  {s}\n  END\n",
    "variable \"{n}\" {\n  type = string\n  default = \"{s}\"\n}", "Server=h;Uid=a;{n}={s};", "{n}: >-\n    {s}\n", "[{n}={s}]", "- \"{n}={s}\"",
    "\u{1b}[36m{n}\u{1b}[0m: \u{1b}[1;32m{s}\u{1b}[0m", "https://h/p?{n}={s}&x=1", "INFO {n}: {s}", "-{n}={s}",
];

/// Names whose values are secrets.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "password", "DB_PASSWORD", "dbPassword", "passwd", "pwd", "PSWD", "db_pw", "secret", "client_secret",
    "clientSecret", "API_KEY", "apiKey", "api-key", "apikey", "access_token", "authToken", "GITHUB_TOKEN",
    "private_key", "SECRET_KEY", "encryption_key", "passphrase", "credentials", "acme_key", "service_key",
    "auth_key", "db_pass", "PresharedKey", "wpa_psk", "signing_secret", "bearer_token", "smtp_password",
];

/// Values that people and generators make.
const VALUES: &[&str] = &[
    "{A32}",
    "{h40}",
    "{b24}",
    "{A16}",
    "hunter{d3}",
    "S3cure-{a8}!",
    "{a6}#{d4}{l4}",
];

/// Secrets in the shapes of files and commands, with `{s}` for the secret.
#[rustfmt::skip]
const FILES: &[&str] = &[
    "machine api.example.com login ann password {s}", "machine h\n  login ann\n  password {s}\n", "db.example.com:5432:app:ann:{s}\n",
    "[Peer]\nPresharedKey = {s}\n", "kind: Secret\nmetadata:\n  name: x\ndata:\n  key1: {s}\n", "echo {s} | sudo -S apt update",
    "echo 'ann:{s}' | chpasswd", "CREATE USER ann IDENTIFIED BY '{s}';", "ALTER USER ann WITH PASSWORD '{s}';", "requirepass {s}",
    "default login ann password {s}", "variable \"token\" {\n  default = \"{s}\"\n}", "the client secret is {s}.", "Access token\n{s}\n",
    "Please use the following password to proceed:\n\n{s}\n\nIt is also in a file.",
    "apiVersion: v1\ndata:\n\textra: '{s}'\nkind: 'Secret'\n", "kind: \"Secret\"\ndata:\n  .cfg: |\n    {s}\nmetadata:\n  name: x\n",
    "curl -u ann:{s} https://x", "mysql -uroot -p{s} db", "postgres://ann:{s}@db:5432/app", "jdbc:mysql://h/d?user=a&password={s}",
    "Server=h;User Id=a;Password={s};Timeout=3", "Authorization: Basic {s}", "Authorization: Bearer {s}", "Cookie: sid={s}; a=b",
    "docker login -u ann -p {s} registry", "sshpass -p {s} ssh h", "https://{s}@github.com/a/b", "Set-Cookie: session={s}; Path=/",
    "//registry.npmjs.org/:_authToken={s}", "AccountName=a;AccountKey={s};x=1", "redis-cli -a {s} ping", "X-Api-Key: {s}",
];

fn redactor() -> Redactor {
    Redactor::new(MarkKey::new([42; 32]))
}

/// Whether a piece of the secret is left.
fn is_missed(secret: &str, redacted: &str) -> bool {
    let len = PIECE_LEN.min(secret.len());
    (0..=secret.len() - len)
        .any(|at| secret.is_char_boundary(at) && redacted.contains(&secret[at..at + len]))
}

#[derive(Default)]
struct Score {
    found: usize,
    missed: Vec<String>,
}

impl Score {
    fn count(&mut self, redactor: &Redactor, text: &str, secret: &str) {
        if is_missed(secret, &redactor.text(text)) {
            self.missed.push(text.to_owned());
        } else {
            self.found += 1;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    fn recall(&self) -> f64 {
        self.found as f64 / (self.found + self.missed.len()).max(1) as f64
    }

    #[track_caller]
    fn assert_at_least(&self, least: f64) {
        let mut shown = String::new();
        for text in self
            .missed
            .iter()
            .step_by(self.missed.len().div_ceil(60).max(1))
        {
            let _ = writeln!(shown, "  {text:?}");
        }
        println!(
            "recall {:.3} of {}",
            self.recall(),
            self.found + self.missed.len()
        );
        assert!(
            self.recall() >= least,
            "recall {:.3}, missed:\n{shown}",
            self.recall()
        );
    }
}

/// The secret part of a shape: a URL's scheme and host are not.
fn secret_of(token: &str) -> &str {
    token.rsplit_once('/').map_or(token, |(_, last)| {
        if token.starts_with("https:") {
            last
        } else {
            token
        }
    })
}

fn formats(shapes: &[&str]) -> Score {
    let (redactor, mut random, mut score) = (redactor(), Random(7), Score::default());
    for _ in 0..ROUNDS {
        for shape in shapes {
            for place in PLACES {
                let token = random.fill(shape);
                score.count(&redactor, &place.replace("{s}", &token), secret_of(&token));
            }
        }
    }
    score
}

fn vendors(vendors: &[(&str, &str)]) -> Score {
    let (redactor, mut random, mut score) = (redactor(), Random(11), Score::default());
    for _ in 0..ROUNDS {
        for (vendor, shape) in vendors {
            let upper = vendor.to_ascii_uppercase();
            let names = [
                format!("{vendor}Token"),
                format!("{vendor}_api_key"),
                format!("{upper}_SECRET"),
                format!("{upper}_KEY"),
                format!("{vendor}ApiKey"),
                (*vendor).to_owned(),
                format!("{upper}_ACCESS_TOKEN"),
            ];
            for name in names {
                for tie in TIES {
                    let secret = random.fill(shape);
                    score.count(
                        &redactor,
                        &tie.replace("{n}", &name).replace("{s}", &secret),
                        &secret,
                    );
                }
            }
        }
    }
    score
}

#[test]
fn published_formats_are_found() {
    formats(SHAPES).assert_at_least(0.999);
}

#[test]
fn formats_that_the_rules_were_not_written_for_are_found() {
    formats(HELD_OUT).assert_at_least(0.95);
}

#[test]
fn tokens_under_the_name_of_their_service_are_found() {
    vendors(VENDORS).assert_at_least(0.99);
}

#[test]
fn services_that_the_rules_were_not_written_for_are_found() {
    vendors(HELD_OUT_VENDORS).assert_at_least(0.9);
}

#[test]
fn assignments_are_found() {
    let (redactor, mut random, mut score) = (redactor(), Random(13), Score::default());
    for name in NAMES {
        for tie in TIES {
            for value in VALUES {
                let secret = random.fill(value);
                let text = tie.replace("{n}", name).replace("{s}", &secret);
                // A weak name needs a value that looks generated.
                let is_weak = *name == "acme_key" && !value.starts_with('{') | value.contains('#');
                if !is_weak {
                    score.count(&redactor, &text, &secret);
                }
            }
        }
    }
    score.assert_at_least(0.995);
}

#[test]
fn phrases_of_several_words_are_found() {
    const WORDS: &[&str] = &[
        "correct", "horse", "battery", "staple", "purple", "orbit", "candle", "violin", "tiger",
    ];
    #[rustfmt::skip]
    const PHRASES: &[&str] = &[
        "passphrase: {s}", "passphrase = {s}", "PASSPHRASE=\"{s}\"", "password: '{s}'", "password: {s}", "mnemonic: {s}", "seed phrase: {s}",
        "seed_phrase = \"{s}\"", "my passphrase is \"{s}\"", "recovery phrase: {s}", "passphrase: |\n  {s}\n", "wifi password: {s}",
        "gpg_passphrase: {s}", "pass phrase: {s}",
    ];
    let (redactor, mut random, mut score) = (redactor(), Random(19), Score::default());
    for phrase in PHRASES {
        for len in [4, 6, 12] {
            let words: Vec<&str> = (0..len).map(|_| *random.pick(WORDS)).collect();
            let secret = words.join(" ");
            score.count(&redactor, &phrase.replace("{s}", &secret), &secret);
        }
    }
    score.assert_at_least(1.0);
}

#[test]
fn files_and_commands_are_read() {
    let (redactor, mut random, mut score) = (redactor(), Random(17), Score::default());
    for _ in 0..ROUNDS {
        for file in FILES {
            let secret = random.fill("{A28}");
            score.count(&redactor, &file.replace("{s}", &secret), &secret);
        }
    }
    score.assert_at_least(1.0);
}

/// The documentation and sources of this repository: much talk of tokens, keys and passwords, no secret.
#[test]
fn prose_and_code_stay() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let redactor = redactor();
    let (mut bytes, mut marked) = (0, Vec::new());
    for folder in [
        "docs",
        "crates/store/src",
        "crates/runtime/src",
        "crates/server/src",
        "crates/cli/src",
    ] {
        visit(&root.join(folder), &mut |text| {
            bytes += text.len();
            for line in text.lines() {
                if redactor.text(line) != line {
                    marked.push(line.to_owned());
                }
            }
        });
    }
    assert!(bytes > 500_000, "the folders were found");
    let shown = marked.join("\n");
    assert!(
        marked.len() * 100_000 <= bytes * 2,
        "{} lines in {bytes} bytes:\n{shown}",
        marked.len()
    );
}

fn visit(folder: &Path, look: &mut impl FnMut(&str)) {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        let is_text = path
            .extension()
            .is_some_and(|kind| ["rs", "md", "json", "toml"].iter().any(|k| kind == *k));
        if path.is_dir() {
            visit(&path, look);
        } else if is_text {
            look(&std::fs::read_to_string(&path).expect("a text"));
        }
    }
}
