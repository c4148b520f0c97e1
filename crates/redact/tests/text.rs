//! The redaction funnel as its callers see it: what is replaced, what stays, and how it looks.
//!
//! Secrets are put together at run time, so that scanners of this repository stay quiet.

use std::borrow::Cow;

use relight_redact::{MarkKey, Redactor};

pub(crate) fn redactor() -> Redactor {
    Redactor::new(MarkKey::new([42; 32]))
}

/// Redacts and drops the digits of the marks, which the tables leave out.
fn picture(redactor: &Redactor, text: &str) -> String {
    let redacted = redactor.text(text);
    assert_eq!(
        redactor.text(&redacted),
        redacted,
        "redacting twice changes nothing"
    );
    without_digits(&redacted)
}

fn without_digits(text: &str) -> String {
    let mut parts = text.split("[redacted:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (kind, rest) = part.split_once(':').expect("a mark has a kind");
        out += &format!("[{kind}]{}", &rest[9..]);
    }
    out
}

/// Letters and digits that look random and are the same each time.
pub(crate) fn random(len: usize) -> String {
    let alphabet = b"aZ3kQ9mVnB7sTx1Yp5LdR8wE2uJ6hG4cF0";
    (0..len)
        .map(|n| alphabet[(n * 7 + n / 5 + 3) % alphabet.len()] as char)
        .collect()
}

pub(crate) fn hex(len: usize) -> String {
    (0..len)
        .map(|n| b"0f9e3a7c1b5d2846"[(n * n + n / 3) % 16] as char)
        .collect()
}

fn upper(len: usize) -> String {
    random(len).to_ascii_uppercase()
}

pub(crate) fn check(table: &[(String, &str)]) {
    let redactor = redactor();
    for (text, expected) in table {
        assert_eq!(picture(&redactor, text), *expected, "{text}");
    }
}

fn check_plain(table: &[(&str, &str)]) {
    let redactor = redactor();
    for (text, expected) in table {
        assert_eq!(picture(&redactor, text), *expected, "{text}");
    }
}

pub(crate) fn check_kept(texts: &[&str]) {
    let redactor = redactor();
    for text in texts {
        assert!(
            matches!(redactor.text(text), Cow::Borrowed(_)),
            "{}",
            redactor.text(text)
        );
    }
}

#[test]
fn a_mark_names_the_kind_and_tells_equal_secrets_apart_from_others() {
    let redactor = redactor();
    let first = redactor
        .text("password=hunter2 password=hunter2 password=hunter3")
        .into_owned();
    let marks: Vec<&str> = first.split(' ').collect();
    assert_eq!(marks[0], marks[1]);
    assert_ne!(marks[0], marks[2]);
    assert!(
        marks[0].starts_with("password=[redacted:assignment:"),
        "{first}"
    );
    let other = Redactor::new(MarkKey::new([43; 32]));
    assert_ne!(
        other.text("password=hunter2"),
        redactor.text("password=hunter2")
    );
}

#[test]
fn one_secret_has_the_same_mark_wherever_it_stands() {
    let token = ["gh", "p_", &random(36)].concat();
    let redactor = redactor();
    let [alone, assigned, bearer, in_url] = [
        token.clone(),
        format!("GITHUB_TOKEN={token}"),
        format!("Authorization: Bearer {token}"),
        format!("https://x-access-token:{token}@github.com/a/b"),
    ]
    .map(|text| redactor.text(&text).into_owned());
    assert!(assigned.ends_with(&alone), "{assigned}");
    assert!(bearer.ends_with(&alone), "{bearer}");
    assert!(in_url.contains(&alone), "{in_url}");
}

#[test]
fn every_provider_is_recognised() {
    let tokens = [
        (["gh", "p_", &random(36)].concat(), "github"),
        (["gh", "o_", &random(36)].concat(), "github"),
        (["gh", "u_", &random(36)].concat(), "github"),
        (["gh", "s_", &random(36)].concat(), "github"),
        (["gh", "r_", &random(36)].concat(), "github"),
        (
            ["github", "_pat_", &random(22), "_", &random(59)].concat(),
            "github",
        ),
        (["gl", "pat-", &random(20)].concat(), "gitlab"),
        (["gl", "rt-", &random(20)].concat(), "gitlab"),
        (["AK", "IA", &upper(16)].concat(), "aws"),
        (["AS", "IA", &upper(16)].concat(), "aws"),
        (["AI", "za", &random(35)].concat(), "google"),
        (["ya", "29.", &random(60)].concat(), "google"),
        (["GOC", "SPX-", &random(28)].concat(), "google"),
        (
            ["sk-", "ant-api03-", &random(93), "AA"].concat(),
            "anthropic",
        ),
        (["sk-", "proj-", &random(48)].concat(), "openai"),
        (["sk-", "svcacct-", &random(48)].concat(), "openai"),
        (["sk-", &random(48)].concat(), "openai"),
        (["sk-", "or-v1-", &hex(64)].concat(), "openrouter"),
        (
            ["xo", "xb-", "123456789012-", &random(24)].concat(),
            "slack",
        ),
        (
            ["xo", "xp-", "123456789012-", &random(24)].concat(),
            "slack",
        ),
        (["xox", "e.xoxp-1-", &random(40)].concat(), "slack"),
        (["xox", "e-1-", &random(40)].concat(), "slack"),
        (["xa", "pp-1-", &random(40)].concat(), "slack"),
        (["sk_", "live_", &random(24)].concat(), "stripe"),
        (["rk_", "live_", &random(24)].concat(), "stripe"),
        (["wh", "sec_", &random(32)].concat(), "stripe"),
        (
            ["S", "G.", &random(22), ".", &random(43)].concat(),
            "sendgrid",
        ),
        (["np", "m_", &random(36)].concat(), "npm"),
        (["py", "pi-AgEIcHlwaS5vcmc", &random(60)].concat(), "pypi"),
        (["ci", "o", &random(32)].concat(), "crates-io"),
        (["h", "f_", &random(34)].concat(), "huggingface"),
        (["gs", "k_", &random(52)].concat(), "groq"),
        (["xa", "i-", &random(80)].concat(), "xai"),
        (["r", "8_", &random(37)].concat(), "replicate"),
        (["12345678", "90:AA", &random(33)].concat(), "telegram"),
        (["do", "p_v1_", &hex(64)].concat(), "digitalocean"),
        (["dc", "kr_pat_", &random(27)].concat(), "docker"),
        (["ab", "c8Q~", &random(34)].concat(), "azure"),
        (["sh", "pat_", &hex(32)].concat(), "shopify"),
        (["ke", "y-", &hex(32)].concat(), "mailgun"),
        (["da", "pi", &hex(32)].concat(), "databricks"),
        (["hv", "s.", &random(90)].concat(), "vault"),
        (["lin", "_api_", &random(40)].concat(), "linear"),
        (["nt", "n_", &random(46)].concat(), "notion"),
        (["sec", "ret_", &random(43)].concat(), "notion"),
        (["pp", "lx-", &random(48)].concat(), "perplexity"),
        (["AGE-", "SECRET-KEY-1", &upper(58)].concat(), "age"),
        (["nv", "api-", &random(64)].concat(), "nvidia"),
        (["ts", "key-auth-", &random(30)].concat(), "tailscale"),
    ];
    let redactor = redactor();
    for (token, kind) in tokens {
        for (before, after) in [
            ("", ""),
            ("use ", "."),
            ("\"", "\""),
            ("x=", " y"),
            ("\\n", "\\n"),
        ] {
            let text = format!("{before}{token}{after}");
            let expected = format!("{before}[{kind}]{after}");
            assert_eq!(picture(&redactor, &text), expected, "{text}");
        }
    }
}

#[test]
fn tokens_of_vk_and_deploy_keys_of_convex() {
    let vk = format!("{}.a.{}", "vk1", random(190));
    let convex = format!("prod:happy-cat-12|{}MiI6I{}", "eyJ2", random(60));
    let text = format!("see {vk} and {convex} there");
    assert_eq!(
        picture(&redactor(), &text),
        "see [vk] and prod:[convex] there"
    );
}

#[test]
fn webhooks_and_tokens_with_context() {
    check(&[
        (
            format!(
                "https://hooks.slack.com/services/T0{}/B0{}/{}",
                upper(8),
                upper(8),
                random(24)
            ),
            "https://[slack]",
        ),
        (
            format!(
                "https://discord.com/api/webhooks/123456789012345678/{}",
                random(68)
            ),
            "https://[discord]",
        ),
        (
            format!("twilio auth {}", hex(32)),
            "twilio auth [assignment]",
        ),
        (
            format!("discord bot M{}.{}.{}", random(23), random(6), random(38)),
            "discord bot [discord]",
        ),
        (
            format!("aws_secret_access_key = {}/x+", random(38)),
            "aws_secret_access_key = [assignment]",
        ),
        (
            format!(
                "AccountName=a;AccountKey={}==;EndpointSuffix=core",
                random(86)
            ),
            "AccountName=a;AccountKey=[assignment];EndpointSuffix=core",
        ),
        (
            format!(
                "https://x.blob.core.windows.net/c?sv=1&sig={}%3D&se=2",
                random(43)
            ),
            "https://x.blob.core.windows.net/c?sv=1&sig=[assignment]&se=2",
        ),
        (
            format!("https://maps.example.com/?key={}&q=1", random(30)),
            "https://maps.example.com/?key=[assignment]&q=1",
        ),
    ]);
}

#[test]
fn a_bad_github_checksum_does_not_exempt() {
    check(&[(["gh", "p_", &random(35), "0"].concat(), "[github]")]);
    check_kept(&["ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ghp_short"]);
}

#[test]
fn pem_private_keys_go_whole_also_escaped_and_torn() {
    let (begin, end) = (
        ["-----BEGIN RSA PRIV", "ATE KEY-----"].concat(),
        ["-----END RSA PRIV", "ATE KEY-----"].concat(),
    );
    let line = random(64);
    check(&[
        (
            format!("a\n{begin}\n{line}\n{line}\n{end}\nb"),
            "a\n[pem]\nb",
        ),
        (format!("a {begin}\\n{line}\\n{end}\\n b"), "a [pem]\\n b"),
        (format!("a\n{begin}\n{line}\n{line}\ntorn"), "a\n[pem]"),
        (
            format!("{begin}\nProc-Type: 4,ENCRYPTED\n\n{line}\n{end}"),
            "[pem]",
        ),
        (
            format!("{{\"private_key\": \"{begin}\\n{line}\\n{end}\\n\", \"x\": 1}}"),
            "{\"private_key\": \"[assignment]\", \"x\": 1}",
        ),
        (begin, "[pem]"),
    ]);
    check_kept(&[
        "look for a -----BEGIN RSA PRIVATE KEY----- line in the file and tell me where it is",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    ]);
}

#[test]
fn json_web_tokens_go_whole() {
    let jwt = [
        "ey",
        "JhbGciOiJIUzI1NiJ9.ey",
        "JzdWIiOiIxMjM0NTY3ODkwIn0.",
        &random(43),
    ]
    .concat();
    let unsigned = jwt.rsplit_once('.').unwrap().0.to_owned();
    check(&[
        (format!("got {jwt}, fine"), "got [jwt], fine"),
        (format!("got {unsigned}. fine"), "got [jwt] fine"),
        (format!("session {unsigned}"), "session [jwt]"),
    ]);
    check_kept(&[
        "eyJ",
        "eyJhbGciOiJIUzI1NiJ9",
        "eyJhbGciOiJIUzI1NiJ9.x",
        "keyJoin.eyJoin",
    ]);
}

#[test]
fn headers_lose_their_credentials_and_keep_their_scheme() {
    check_plain(&[
        (
            "Authorization: Bearer abc123def",
            "Authorization: Bearer [authorization]",
        ),
        (
            "authorization: token abc123def x",
            "authorization: token [authorization] x",
        ),
        (
            "curl -H 'Authorization: Bearer abc123def' http://x",
            "curl -H 'Authorization: Bearer [authorization]' http://x",
        ),
        (
            "curl -H \"X-Api-Key: abc123\" http://x",
            "curl -H \"X-Api-Key: [assignment]\" http://x",
        ),
        (
            "{\"Authorization\": \"Bearer abc123def\"}",
            "{\"Authorization\": \"Bearer [authorization]\"}",
        ),
        (
            "{\\\"authorization\\\":\\\"Bearer abc123def\\\"}",
            "{\\\"authorization\\\":\\\"Bearer [authorization]\\\"}",
        ),
        (
            "[\"authorization\", \"Bearer abc123def\"]",
            "[\"authorization\", \"Bearer [authorization]\"]",
        ),
        (
            "Proxy-Authorization: Basic dXNlcjpwYXNz\nHost: x",
            "Proxy-Authorization: Basic [authorization]\nHost: x",
        ),
        (
            "Authorization: Digest username=\"a\", response=\"b\"\nx",
            "Authorization: Digest [authorization]\nx",
        ),
        (
            "Cookie: sid=abc; theme=dark\r\nHost: x",
            "Cookie: [cookie]\r\nHost: x",
        ),
        (
            "Set-Cookie: sid=abc; Path=/; HttpOnly\nx",
            "Set-Cookie: [cookie]\nx",
        ),
        (
            "curl -b x -H 'Cookie: a=b; c=d' y",
            "curl -b x -H 'Cookie: [cookie]' y",
        ),
        // Only a bare number needs quotes to stay JSON.
        (
            "Authorization\":Bearer password",
            "Authorization\":Bearer [authorization]",
        ),
        (
            "sent Bearer abc123def456 to it",
            "sent Bearer [bearer] to it",
        ),
        (
            "Basic dXNlcjpwYXNzd29yZA== was sent",
            "Basic [basic] was sent",
        ),
    ]);
}

#[test]
fn passwords_in_urls_go_and_the_rest_stays() {
    check_plain(&[
        (
            "postgres://ann:s3cret@db:5432/app",
            "postgres://ann:[url-password]@db:5432/app",
        ),
        (
            "(redis://:s3cret@cache/0)",
            "(redis://:[url-password]@cache/0)",
        ),
        (
            "see https://x.y/?access_token=abc123&page=2#top",
            "see https://x.y/?access_token=[assignment]&page=2#top",
        ),
        (
            "GET /cb?token=abc123 HTTP/1.1",
            "GET /cb?token=[assignment] HTTP/1.1",
        ),
        (
            "redirect=https%3A%2F%2Fx%3Fapi_key%3Dabc123",
            "redirect=https%3A%2F%2Fx%3Fapi_key%3D[assignment]",
        ),
    ]);
}

#[test]
fn flags_of_commands() {
    check_plain(&[
        (
            "curl -u ann:s3cret https://x",
            "curl -u ann:[password] https://x",
        ),
        (
            "curl -s -u 'ann:s3 cret' https://x",
            "curl -s -u 'ann:[password]' https://x",
        ),
        ("curl --user ann:s3cret x", "curl --user ann:[password] x"),
        ("mysql -uroot -ps3cret db", "mysql -uroot -p[password] db"),
        ("sshpass -p s3cret ssh x", "sshpass -p [password] ssh x"),
        (
            "docker login -u ann -p s3cret x",
            "docker login -u ann -p [password] x",
        ),
        (
            "redis-cli -h x -a s3cret ping",
            "redis-cli -h x -a [password] ping",
        ),
        (
            "login --password hunter2 --user ann",
            "login --password [assignment] --user ann",
        ),
        (
            "login --token=abcdef --user ann",
            "login --token=[assignment] --user ann",
        ),
        (
            "login --api-key \"a b c\" x",
            "login --api-key \"[assignment]\" x",
        ),
        (
            "[\"login\",\"--password\",\"hunter2\"]",
            "[\"login\",\"--password\",\"[assignment]\"]",
        ),
    ]);
    check_kept(&[
        "the --password flag is deprecated",
        "use --token to log in",
        "run --password-file /run/secrets/x --max-tokens 5 --token $TOKEN",
        "mysql -p db",
        "curl -u $USER:$PASS x",
        "curl -u ann x",
    ]);
}

#[test]
fn secrets_in_the_words_of_a_command() {
    let redactor = redactor();
    let picture = |words: &[&str]| {
        let clean = redactor.command(words);
        assert_eq!(
            redactor.command(&clean),
            clean,
            "redacting twice changes nothing"
        );
        without_digits(&clean.join(" "))
    };
    for (words, expected) in [
        (
            &["agent", "--password", "correct horse"][..],
            "agent --password [assignment]",
        ),
        (
            &["agent", "--password=a b", "-v"],
            "agent --password=[assignment] -v",
        ),
        (
            &["agent", "--token", "x1", "--verbose"],
            "agent --token [assignment] --verbose",
        ),
        (
            &["sudo", "/usr/bin/curl", "-u", "a:s3 x"],
            "sudo /usr/bin/curl -u a:[password]",
        ),
        (&["curl", "-ua:s3"], "curl -ua:[password]"),
        (&["mysql", "-ps3", "-p", "db"], "mysql -p[password] -p db"),
        (
            &["docker", "login", "-u", "a", "-p", "s3"],
            "docker login -u a -p [password]",
        ),
        (&["docker", "run", "-p", "80:80"], "docker run -p 80:80"),
        (
            &["sshpass", "-p", "s3", "ssh", "h"],
            "sshpass -p [password] ssh h",
        ),
        (
            &["env", "DB_PASS=a b", "agent"],
            "env DB_PASS=[assignment] agent",
        ),
        (
            &["curl", "-H", "Authorization: Bearer abc123def"],
            "curl -H Authorization: Bearer [authorization]",
        ),
        (
            &["aws", "configure", "set", "aws_secret_access_key", "x1"],
            "aws configure set aws_secret_access_key [assignment]",
        ),
        (
            &["sh", "-c", "mysql -ps3 db"],
            "sh -c mysql -p[password] db",
        ),
        (
            &["agent", "--password", "$PASS", "--max-tokens", "5"],
            "agent --password $PASS --max-tokens 5",
        ),
        (
            &["gh", "secret", "set", "--body-file", "x"],
            "gh secret set --body-file x",
        ),
    ] {
        assert_eq!(picture(words), expected);
    }
}

#[test]
fn assignments_of_secret_names() {
    check_plain(&[
        ("password=hunter2", "password=[assignment]"),
        ("password: hunter2", "password: [assignment]"),
        (
            "the password: hunter2, ok",
            "the password: [assignment], ok",
        ),
        ("PASSWORD = hunter2", "PASSWORD = [assignment]"),
        (
            "export DB_PASS='a b c'; x",
            "export DB_PASS='[assignment]'; x",
        ),
        (
            "{\"apiKey\":\"abc\",\"n\":1}",
            "{\"apiKey\":\"[assignment]\",\"n\":1}",
        ),
        (
            "{'client_secret': 'abc'}",
            "{'client_secret': '[assignment]'}",
        ),
        (
            "{\"password\": 12345678, \"n\": 1}",
            "{\"password\": \"[assignment]\", \"n\": 1}",
        ),
        (
            "{\"access_tokens\": [\"abc\", \"def\"]}",
            "{\"access_tokens\": [\"[assignment]\", \"[assignment]\"]}",
        ),
        (
            "os.environ[\"API_KEY\"] = \"abc\"",
            "os.environ[\"API_KEY\"] = \"[assignment]\"",
        ),
        (
            "const PASSWORD: &str = \"hunter2\";",
            "const PASSWORD: &str = \"[assignment]\";",
        ),
        ("if token == \"abc123\" {", "if token == \"[assignment]\" {"),
        (
            "  password: swordfish\n  user: ann",
            "  password: [assignment]\n  user: ann",
        ),
        (
            "<password>hunter2</password>",
            "<password>[assignment]</password>",
        ),
        ("api_key => 'abc'", "api_key => '[assignment]'"),
        (
            "user=ann&password=a%20b&x=1",
            "user=ann&password=[assignment]&x=1",
        ),
        (
            "Server=x;User Id=a;Password=hunter2;Timeout=3",
            "Server=x;User Id=a;Password=[assignment];Timeout=3",
        ),
        (
            "\x1b[1mtoken\x1b[0m: \x1b[32mabc123\x1b[0m",
            "\x1b[1mtoken\x1b[0m: \x1b[32m[assignment]\x1b[0m",
        ),
        (
            "PWD=/home/ann PGPASSWORD=hunter2 psql",
            "PWD=/home/ann PGPASSWORD=[assignment] psql",
        ),
        (
            "\"{\\\"password\\\":\\\"hunter2\\\"}\"",
            "\"{\\\"password\\\":\\\"[assignment]\\\"}\"",
        ),
        (
            "A=1\\nAPI_KEY=abc\\nB=2",
            "A=1\\nAPI_KEY=[assignment]\\nB=2",
        ),
        (
            "pass\u{a0}x token=pässwörd ü",
            "pass\u{a0}x token=[assignment] ü",
        ),
        ("password=\"line\nother\" x", "password=\"[assignment]\" x"),
        ("password=", "password="),
        ("the API key: abcd1234", "the API key: [assignment]"),
        ("password -> hunter2", "password -> [assignment]"),
    ]);
}

#[test]
fn values_on_other_lines_than_their_names() {
    check_plain(&[
        (
            "password: |\n  one two\n\n  three\nuser: ann",
            "password: |\n  [assignment]\nuser: ann",
        ),
        (
            "a:\n  token: >-\n    abc123\n  b: c",
            "a:\n  token: >-\n    [assignment]\n  b: c",
        ),
        ("password:\n  hunter2\n", "password:\n  [assignment]\n"),
        (
            "{\"password\":\n  \"two words\"}",
            "{\"password\":\n  \"[assignment]\"}",
        ),
        ("Enter token:\nabc123def\n", "Enter token:\n[assignment]\n"),
        (
            "- name: DB_PASS\n  value: hunter2",
            "- name: DB_PASS\n  value: [assignment]",
        ),
        (
            "{\"name\": \"API_KEY\", \"value\": \"abc\"}",
            "{\"name\": \"API_KEY\", \"value\": \"[assignment]\"}",
        ),
        (
            "<add key=\"ClearTextPassword\" value=\"abc\" />",
            "<add key=\"ClearTextPassword\" value=\"[assignment]\" />",
        ),
    ]);
    check_kept(&[
        "PASSWORD=\nUSER=ann\n",
        "password:\n  type: string\n",
        "secrets:\n  - name: x\n",
        "Password:\nLogin succeeded\n",
    ]);
}

#[test]
fn names_without_a_sign_before_their_value() {
    check_plain(&[
        (
            "#define WIFI_PASSWORD \"hunter2\"",
            "#define WIFI_PASSWORD \"[assignment]\"",
        ),
        ("#define password hunter2", "#define password [assignment]"),
        ("ENV API_TOKEN abc123", "ENV API_TOKEN [assignment]"),
        (
            "define( 'DB_PASSWORD', 'swordfish' );",
            "define( 'DB_PASSWORD', '[assignment]' );",
        ),
        (
            "machine h login ann password hunter2",
            "machine h login ann password [assignment]",
        ),
        (
            "machine h\n login ann\n password hunter2",
            "machine h\n login ann\n password [assignment]",
        ),
        (
            "var token string = \"abc\"",
            "var token string = \"[assignment]\"",
        ),
        (
            "private_key \"something\";",
            "private_key \"[assignment]\";",
        ),
        (
            "if (\"bar\" == my_password) {",
            "if (\"[assignment]\" == my_password) {",
        ),
        ("char secret(\"Vq7mLw\");", "char secret(\"[assignment]\");"),
        (
            "ALTER USER ann WITH PASSWORD 'hunter2';",
            "ALTER USER ann WITH PASSWORD '[assignment]';",
        ),
        (
            "CREATE USER a IDENTIFIED BY 'hunter2';",
            "CREATE USER a IDENTIFIED BY '[password]';",
        ),
        (
            "key = env.KEY || \"abc\"; my password is hunter2.",
            "key = env.KEY || \"abc\"; my password is [assignment].",
        ),
        (
            "db.example.com:5432:app:ann:hunter2\n",
            "db.example.com:5432:app:ann:[password]\n",
        ),
        (
            "echo hunter2 | sudo -S true",
            "echo [password] | sudo -S true",
        ),
    ]);
}

#[test]
fn passphrases_and_other_names() {
    let psk = format!("{}=", random(43));
    check(&[
        (
            "passphrase: correct horse battery staple".to_owned(),
            "passphrase: [assignment]",
        ),
        (
            "password: correct horse battery staple\nx".to_owned(),
            "password: [assignment]\nx",
        ),
        (
            format!("PresharedKey = {psk}"),
            "PresharedKey = [assignment]",
        ),
        (
            "pw: hunter2 PSWD=hunter2".to_owned(),
            "pw: [assignment] PSWD=[assignment]",
        ),
        (
            format!("acme_key = \"{}\"", hex(32)),
            "acme_key = \"[assignment]\"",
        ),
        (
            format!("heroku = \"{}\"", random(32)),
            "heroku = \"[assignment]\"",
        ),
        ("vendor_key: hunter2".to_owned(), "vendor_key: [assignment]"),
    ]);
    check_kept(&[
        "password: must not be empty",
        "cache_key = \"0f35f57e93c23817\" sort_key: name",
    ]);
}

#[test]
fn a_token_behind_a_colour_is_a_token() {
    let token = ["h", "f_", &random(34)].concat();
    check(&[
        (
            format!("\x1b[1;32m{token}\x1b[0m"),
            "\x1b[1;32m[huggingface]\x1b[0m",
        ),
        (format!("\\u001b[32m{token}"), "\\u001b[32m[huggingface]"),
        (
            "\x1b[32mpass\x1b[0m=hunter2".to_owned(),
            "\x1b[32mpass\x1b[0m=[assignment]",
        ),
    ]);
}

#[test]
fn secrets_inside_base64_and_beside_others() {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let token = ["gh", "p_", &random(36)].concat();
    let aws = ["AK", "IA", &upper(16)].concat();
    check(&[
        (format!("v: {}", encode(&token)), "v: [encoded]"),
        (format!("v: {}", encode("password=hunter2")), "v: [encoded]"),
        (
            format!("v: {}", encode("password is wrong")),
            &format!("v: {}", encode("password is wrong")),
        ),
        (format!("{aws},{}", random(40)), "[aws],[aws]"),
        (
            "data:\n  user: YW5u\nkind: Secret\n---\ndata:\n  user: YW5u\nkind: Map\n".to_owned(),
            "data:\n  user: [kubernetes]\nkind: Secret\n---\ndata:\n  user: YW5u\nkind: Map\n",
        ),
    ]);
}

#[test]
fn what_only_looks_assigned_stays() {
    check_kept(&[
        "def connect(user=None, pwd=None):",
        "self.token = nextchar",
        "secrets: inherit",
        "api_key: <your api key here>",
        "password: changeme",
        "password = \"CHANGE_ME\" token: your-api-token",
        "let secret = agent\nlet token = lexer.next",
        "pub cookie: u32, pub token: Token![;], secret: &[u8],",
        "format!(\"token={token:?} {password}\")",
        "tokens = [\"password\", \"email\", \"user_name\"]",
        "token: !Ref GithubToken",
        "TRAFFIC_SECRET => \"TRAFFIC_SECRET\"",
        "agent:main:discord:9f86d081-884c-4d65-9a2f-eaa0c55ad015",
        "agent:main:telegram:dm:1234567890",
    ]);
}

#[test]
fn random_strings_after_secret_words() {
    let token = random(24);
    check(&[
        (
            format!("the token is {token} now"),
            "the token is [assignment] now",
        ),
        (
            format!("my password was `{token}`"),
            "my password was `[assignment]`",
        ),
        (format!("new api_key {token}"), "new api_key [assignment]"),
        (
            format!("the commit is {token} now"),
            &format!("the commit is {token} now"),
        ),
    ]);
}

#[test]
fn counts_and_names_that_only_sound_secret_stay() {
    check_kept(&[
        "tokens_used=1234 max_tokens: 4096 token_count=3 prompt_tokens=12",
        "{\"total_tokens\":12,\"completionTokens\":3,\"cache_read_input_tokens\":99,\"token_limit\":5}",
        "tokens: 1234, token: 12, token=5",
        "tokenizer=cl100k_base author: ann authored_by=bob keyboard=qwerty",
        "primary_key=id idempotency_key=ab12cd34ef monkey=george session_id=abc123def",
        "auth_type=oauth2 auth: basic, auth_url=https://x.y/auth",
        "pass: 12 fail: 3, password_file=/run/secrets/db",
        "SSH_AUTH_SOCK=/tmp/ssh-XXXX/agent.123 PWD=/home/me/Main",
    ]);
}

#[test]
fn placeholders_stay() {
    check_kept(&[
        "password=$DB_PASSWORD token=${TOKEN} secret=$(cat x)",
        "step a: go (idempotency key rl-767eb68bb2a497feb6c84eb4325ac8f8c1840dcf)",
        "password=<password> token: <your-token> api_key=\"\"",
        "password=*** password=… token: … secret=[redacted:github:12345678]… token=xxxxxxxx api_key=null secret: None, auth=true",
        "{\"password\": null, \"token\": true, \"api_key\": \"[REDACTED]\"}",
        "postgres://ann:$PGPASSWORD@db postgres://ann:***@db",
        "Authorization: Bearer $TOKEN",
        "token: ${{ github.token }}",
        "id-token: write",
        "fetch(url, {credentials: 'include'})",
        "Authorization: Bearer {token}",
        "token=sk-xxxxxxxxxxxxxxxxxxxxxxxx api_key: rootly_0000000000000000000000",
        "OPENAI_API_KEY=sk-proj-REPLACE_WITH_YOUR_KEY_20260501",
        "https://hooks.zapier.com/hooks/catch/YOUR_HOOK_ID_HERE",
        "secret = example-secret-value-2",
        "redis://ann:%s@cache password='<%= ENV[\"X\"] %>' token: '{{ lookup(1) }}'",
    ]);
}

#[test]
fn runs_in_no_order_behind_a_name_are_tokens() {
    let run = random(31);
    let lower = hex(40);
    check(&[
        (format!("saw acme_{run} there"), "saw [access-token] there"),
        (format!("acme_v2-{run}"), "[access-token]"),
        (format!("\\nacme_{lower}\\n"), "\\n[access-token]\\n"),
        (format!("acme = \"{run}\""), "acme = \"[assignment]\""),
        (
            format!("{{\\\"acme\\\":\\\"{run}\\\"}}"),
            "{\\\"acme\\\":\\\"[assignment]\\\"}",
        ),
        (format!("acme: {run}\n"), "acme: [assignment]\n"),
    ]);
    for kept in [
        format!("sha512-{run}"),
        format!("etag = \"{run}\""),
        format!("message_id: {run}"),
        format!("acme: {run}/{run}=="),
        format!("acme = {lower}"),
        format!("commit_{lower}"),
        "acme_TheNameOfAVeryLongTestInCamelCase2026".to_owned(),
        "acme_abcdefghijklmnopqrstuvwxyzabcdefghijklmnop".to_owned(),
        run,
    ] {
        check_kept(&[&kept]);
    }
}

#[test]
fn prefixes_of_unknown_services_are_read_in_any_case() {
    let (long, short) = (random(32), random(22));
    let lower = long.to_ascii_lowercase();
    check(&[
        (format!("AcmeSvc_{long}"), "[access-token]"),
        (format!("acme_{lower}"), "[access-token]"),
        (format!("ACME_{}", upper(32)), "[access-token]"),
        // A word for a secret in the prefix makes a shorter body do.
        (format!("k9sk_v1_{short}"), "[access-token]"),
        (format!("acmepat-{short}"), "[access-token]"),
        (
            format!("{}-{}-{}", hex(32), hex(8), hex(8)),
            "[access-token]",
        ),
        (
            format!("{}|{}", "8".repeat(8) + "40271935", random(27)),
            "[facebook]",
        ),
    ]);
    for kept in [
        format!("acme_{short}"),
        format!("acme-{lower}"),
        format!("acme-{}", hex(40)),
        format!("{}-{}", hex(32), hex(8)),
        format!("uuid_{}", random(32)),
    ] {
        check_kept(&[&kept]);
    }
}

#[test]
fn names_and_markup_of_other_conventions_are_read() {
    let password = "kX9!mQ27vB";
    let token = random(32);
    for (before, behind) in [
        ("mdp=", ""),
        ("haslo: ", "\n"),
        ("DB_HESLO=", ""),
        ("jelszo = '", "'"),
        ("losenord: ", ""),
        ("adgangskode=", ""),
        ("salasana=", ""),
        ("sifre = \"", "\""),
        ("clave=", ""),
        ("parola = \"", "\";"),
        ("snmp_community = ", ""),
        ("userPassword:: ", ""),
        ("<wsse:Password Type=\"PasswordText\">", "</wsse:Password>"),
        ("<o:Password>", "</o:Password>"),
        ("<Password><Value>", "</Value></Password>"),
        ("{password, \"", "\"},"),
        ("Const Password As String = \"", "\""),
        ("(setq my-password \"", "\")"),
        ("%any : PSK \"", "\""),
    ] {
        let expected = format!("{before}[assignment]{behind}");
        assert_eq!(
            picture(&redactor(), &format!("{before}{password}{behind}")),
            expected
        );
    }
    check(&[
        (
            format!("api_hash=\"{}\"", hex(32)),
            "api_hash=\"[assignment]\"",
        ),
        (
            format!("uclassifykey={}", upper(12)),
            "uclassifykey=[assignment]",
        ),
        (
            format!("https://x.y/f?code={token}=="),
            "https://x.y/f?code=[assignment]",
        ),
        (
            format!("curl -u ':{password}' https://x"),
            "curl -u ':[password]' https://x",
        ),
        (
            format!("SET PASSWORD FOR 'a'@'%' = '{password}';"),
            "SET PASSWORD FOR 'a'@'%' = '[password]';",
        ),
    ]);
    check_kept(&[
        "https://x.y/?country_code=49&code=de",
        "std::Password:: x",
        "enclave=hunter21",
    ]);
}

#[test]
fn lists_forms_and_settings_of_devices_are_read() {
    let (password, token) = ("kX9!mQ27vB", random(32));
    let form = "Content-Disposition: form-data; name=\"password\"\r\n\r\n";
    check(&[
        (
            format!("api_keys:\n  - {token}\n  - \"{token}\"\nx: 1"),
            "api_keys:\n  - [assignment]\n  - \"[assignment]\"\nx: 1",
        ),
        (
            format!("{form}{password}\r\n--b"),
            &format!("{form}[assignment]\r\n--b"),
        ),
        (
            format!("username ann secret {password}\n"),
            "username ann secret [assignment]\n",
        ),
        (
            format!("tacacs-server key {password}\n"),
            "tacacs-server key [assignment]\n",
        ),
        (
            format!("-storepass {password}\n"),
            "-storepass [assignment]\n",
        ),
        (
            "the password is t*yErmFhdHWH".to_owned(),
            "the password is [assignment]",
        ),
        (
            format!("<password>  {password}  </password>"),
            "<password>  [assignment]  </password>",
        ),
        (
            format!("<item>DB_PASS={password}</item>"),
            "<item>DB_PASS=[assignment]</item>",
        ),
        (
            format!("pwd = pwd or '{password}'"),
            "pwd = pwd or '[assignment]'",
        ),
        (
            format!("https://a@x.org:pa#ss{password}@github.com"),
            "https://a@x.org:[url-password]@github.com",
        ),
        (
            format!("credentials.basic(\"ann\", \"{password}\")"),
            "credentials.basic(\"ann\", \"[password]\")",
        ),
        (
            format!("</Exponent><P>AQ==</P><D>{token}</D></RSAKeyValue>"),
            "</Exponent>[private-key]</RSAKeyValue>",
        ),
        (format!("{}_{}", random(27), random(21)), "[access-token]"),
        (
            format!("key={}", "wxqzt7kvbd".repeat(3)),
            "key=[assignment]",
        ),
    ]);
    check_kept(&[
        "secrets:\n  - db_password\n  - source: app-key-2\n",
        "the password is wrong!",
        "the token OAuth2Token\n",
        "the secret Base64Encoded\n",
        "pwd = pwd or getpass()",
        "</Exponent></RSAKeyValue>",
        "key=the_strength_of_the_first_thing",
    ]);
}

#[test]
fn tokens_side_by_side_and_pairs_of_them_are_found() {
    let (pat, other) = (random(36), upper(57));
    let pair = random(40);
    check(&[
        (format!("ghp_{pat}ghp_{pat}"), "[github][github]"),
        (format!("GOOG1E{other}:{pair}"), "[google]:[google]"),
        (
            format!("https://{}:x-oauth-basic@github.com", hex(40)),
            "https://[url-password]:x-oauth-basic@github.com",
        ),
    ]);
}

#[test]
fn values_in_calls_markup_and_tables_are_found() {
    let token = random(24);
    let key = hex(32);
    check(&[
        (
            format!("twilio.Client(\"{key}\", \"{token}\")"),
            "twilio.Client(\"[assignment]\", \"[assignment]\")",
        ),
        (
            format!("getApiKey() {{ return \"{token}\"; }}"),
            "getApiKey() { return \"[assignment]\"; }",
        ),
        (
            format!("env(\"SECRET_KEY\", default=\"{token}\")"),
            "env(\"SECRET_KEY\", default=\"[assignment]\")",
        ),
        (
            format!("statuspage_api: OAuth {key}"),
            "statuspage_api: OAuth [assignment]",
        ),
        (
            format!("asana_key = \"{}\"", "8195513847023883"),
            "asana_key = \"[assignment]\"",
        ),
    ]);
    check_plain(&[
        (
            "new NetworkCredential(\"ann\", \"hunter22x\")",
            "new NetworkCredential(\"ann\", \"[assignment]\")",
        ),
        (
            "new PDO(\"mysql:host=h\", \"ann\", \"hunter22x\")",
            "new PDO(\"mysql:host=h\", \"ann\", \"[password]\")",
        ),
        (
            "jdbc:oracle:thin:ann/hunter22x@h:1521:x",
            "jdbc:oracle:thin:ann/[password]@h:1521:x",
        ),
        (
            "<p name=\"password\"><value>hunter22x</value></p>",
            "<p name=\"password\"><value>[assignment]</value></p>",
        ),
        (
            "| password | `hunter22x` |",
            "| password | `[assignment]` |",
        ),
        ("* **Password:** hunter22x", "* **Password:** [assignment]"),
        ("enable secret 0 hunter22x", "enable secret 0 [assignment]"),
        ("7z a -phunter22x a.7z", "7z a -p[password] a.7z"),
        ("mot de passe: hunter22x", "mot de passe: [assignment]"),
    ]);
    check_kept(&[
        "| password | string | at least 8 characters |",
        "getToken() { return \"Bearer\"; }",
        "jdbc:oracle:thin:@h:1521/x",
        "**token**: the word that was read",
        "jira_key = \"PROJ-123\"",
    ]);
}

#[test]
fn prose_stays() {
    check_kept(&[
        "the token was rotated and the password: see vault for it",
        "Bearer authentication is basic knowledge; a bearer of bad news",
        "Basic understanding of authentication: required",
        "secret: the cake is a lie",
        "Two tokens are better than one. Passing the key to the author was key.",
        "error: invalid token: expected identifier, found `}`",
        "unexpected token '<' at line 3: password must not be empty",
        "keys: sorted; cookies: enabled",
    ]);
}

#[test]
fn code_stays() {
    check_kept(&[
        "let token = parser.next_token();",
        "fn login(user: &str, password: &str) -> Token {",
        "struct Login { token: String, password: Option<String> }",
        "connect(user=user, password=password, token=self.token)",
        "api_key = os.environ[\"OPENAI_API_KEY\"]",
        "const secret = await getSecret('db');",
        "password = getpass.getpass()",
        "use crate::auth::Token; impl Token::new",
        "if token == other { return }",
        "#[derive(Debug)] pub struct Secret;",
    ]);
}

#[test]
fn hashes_ids_and_build_output_stay() {
    check_kept(&[
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "<img src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk\">",
        "   Compiling secret-service v3.0.1\n   Compiling authentic v0.2.1 (/work/tokens)",
        "src/auth.rs:12:5: warning: unused variable: `token`",
        "test auth::tests::token_is_refreshed ... ok",
        "Downloaded tokio v1.54.0 (registry `crates-io`)",
        "checksum = \"0a1b2c3d4e5f60718293a4b5c6d7e8f9\"",
        "https://github.com/a/b/commit/9fceb02d0ae598e95dc970b74767f19372d61af8",
        "git@github.com:a/b.git http://localhost:8080/a@b",
        "the end of xoxe.understanding it",
        "task-force-delta-2026-planning-notes sk-learn-contrib-examples-two",
    ]);
}

#[test]
fn ids_that_apis_of_models_want_back_stay() {
    check_kept(&[
        "fc_68a7c1f2d4b08190a3c5e7f90b1d2c3e0f4a5b6c7d8e9f01",
        "{\"id\": \"resp_68a7c1f2d4b08190a3c5e7f90b1d2c3e0f4a5b6c7d8e9f01\"}",
        "msg_68a7c1f2d4b08190a3c5e7f90b1d2c3e0f4a5b6c7d8e9f01",
        "msg_01XFDUDYJgAACzvnptvVoYEL and toolu_01A09q90qw90lq917835lq9",
        "rs_68a7c1f2d4b08190a3c5e7f90b1d2c3e0f4a5b6c7d8e9f01 call_abcDEF1234567890ghIJKLmn",
        "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT gen-1723045091-K1x2y3z4a5b6c7d8e9f0",
        "conv_68a7c1f2d4b08190a3c5e7f90b1d2c3e0f4a5b6c7d8e9f01",
        "thread_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4",
    ]);
}

#[test]
fn what_programs_do_with_tokens_stays() {
    check_kept(&[
        "console.log(\"token:\", token)",
        "def ask(prompt='Password: ', stream=None):",
        "return newToken('numeric', sign)",
        "if (token.value === \"function\") {",
        "if token.endswith(\"x1y2z3w4\"):",
        "return token => !matches(token);",
        "self.disableToken = !(error.status === 401);",
        "options.Secrets = &nooptypes.SecretNoop{}",
        "var _ secrets.Component = (*secretResolver)(nil)",
        "secrets \"github.com/acme/agent/secrets\"",
        "ACCESS_TOKEN: params.credentials?.token ?? '',",
        "config.ClientAuth = tls.RequireAndVerifyClientCert",
        "pub const PrivateKeyMask: X509TemplatePrivateKeyFlag = 12288i32;",
        "pub const FC_VAR: EXPR_TOKEN = 3i32;",
        "UnexpectedTokenUnary: \"Illegal expression. Wrap the left side.\",",
    ]);
    check(&[
        (
            format!("const TOKEN: Type7 = \"{}\";", random(24)),
            "const TOKEN: Type7 = \"[assignment]\";",
        ),
        (
            "if (token.value === \"hunter2x\")".to_owned(),
            "if (token.value === \"[assignment]\")",
        ),
    ]);
}

#[test]
fn bytes_that_are_not_utf_8_survive() {
    let redactor = redactor();
    let redacted = redactor.bytes(b"\xff\xfe password=hunter2 \x80\x80 end\xc3");
    assert!(redacted.starts_with(b"\xff\xfe password=[redacted:assignment:"));
    assert!(redacted.ends_with(b"] \x80\x80 end\xc3"));
    assert!(matches!(redactor.bytes(b"\xff\x00\xfe"), Cow::Borrowed(_)));
}

#[test]
fn pairs_are_judged_by_their_key() {
    let redactor = redactor();
    let pair = |key, value| without_digits(&redactor.pair(key, value));
    assert_eq!(pair("db_password", "correct horse battery"), "[assignment]");
    assert_eq!(pair("branch", "fix/token-count"), "fix/token-count");
    assert_eq!(pair("tokens_used", "1234"), "1234");
    assert_eq!(pair("token", "1234"), "1234");
    assert_eq!(pair("api_key", "$API_KEY"), "$API_KEY");
    assert_eq!(pair("note", "password=hunter2"), "password=[assignment]");
    let once = redactor.pair("db_password", "hunter2").into_owned();
    assert_eq!(redactor.pair("db_password", &once), once);
}

#[test]
fn a_value_that_only_looks_harmless_goes_whole_and_once() {
    let redactor = redactor();
    let once = redactor.pair("token", "//password=0A").into_owned();
    assert_eq!(without_digits(&once), "[assignment]");
    assert_eq!(redactor.pair("token", &once), once);
}

#[test]
fn marks_stay_with_and_without_quotes() {
    let mark = "[redacted:env:0123abcd]";
    let redactor = redactor();
    for text in [
        format!("Authorization: Bearer {mark}"),
        format!("Authorization: Bearer \"{mark}\""),
        format!("Authorization\":Bearer \"{mark}\""),
        format!("{{\\\"Authorization\\\":Bearer \\\"{mark}\\\"}}"),
        format!("Cookie: {mark}\nAuthorization: Basic '{mark}'"),
        format!("{{\"password\": \"{mark}\"}}"),
    ] {
        assert!(
            matches!(redactor.text(&text), Cow::Borrowed(_)),
            "{}",
            redactor.text(&text)
        );
    }
}

#[test]
fn debug_output_tells_nothing() {
    let redactor = redactor().with_known("x", "a-very-secret-value");
    assert_eq!(format!("{redactor:?}"), "Redactor(..)");
}

#[test]
fn results_of_tests_and_compared_words_stay() {
    check_kept(&[
        "PASS: test_login_works",
        "PASS: TestParseConfig",
        "PASS: test_checkout_flow",
        "PASS: TestParseConfig2/with_3_keys (0.00s)",
        "--- PASS: TestLogin (0.00s)\n    --- PASS: TestLogin/retry_2 (0.01s)\nPASS\nok  \tpkg/x\t0.01s",
        "ok 1 - pass: thing",
        "ok 2 - pass: test_login2",
        "PASS src/x.test.ts",
        "PASS  src/login2.test.tsx (5.1 s)",
        "PASS: tests/login.sh",
        "PASS   : suite::case_2()",
        "pass: test/unit/login.test.js",
        "tests/test_login.py::test_ok PASSED [ 50%]",
        "1/3 Test #1: parse_config .....................   Passed    0.01 sec",
        "if token == \"EOF\":",
        "if token == \"else\":",
        "if token != 'end_if' {",
        "while (tok.token === \"endwhile\") {",
        "if \"else\" == token:",
        "passwd: all authentication tokens updated successfully",
        "passwd: password updated successfully",
        "curl -u https://example.com/path",
        "machine learning login page password page",
        "a machine at the login page asks for a password first",
    ]);
    check_plain(&[
        ("PASS: hunter2", "PASS: [assignment]"),
        ("DB_PASS: test_login_works", "DB_PASS: [assignment]"),
        ("pass: x9Kq!v7Lm2", "pass: [assignment]"),
        ("PASS=test_login_works", "PASS=[assignment]"),
        (
            "\"pass\": \"test_login_works\"",
            "\"pass\": \"[assignment]\"",
        ),
        (
            "user: ann\npass: swordfish\n",
            "user: ann\npass: [assignment]\n",
        ),
        (
            "if token == \"s3cr3tTok\":",
            "if token == \"[assignment]\":",
        ),
        (
            "if password == \"swordfish\":",
            "if password == \"[assignment]\":",
        ),
        ("passwd: swordfish", "passwd: [assignment]"),
        (
            "machine h.org login ann password swordfish",
            "machine h.org login ann password [assignment]",
        ),
        (
            "machine h\n  login ann\n  password swordfish",
            "machine h\n  login ann\n  password [assignment]",
        ),
    ]);
}

#[test]
fn short_flags_together_and_tokens_in_the_words_of_commands() {
    check_plain(&[
        (
            "curl -su ann:s3cret https://x",
            "curl -su ann:[password] https://x",
        ),
        (
            "curl -sSfu ann:s3cret https://x",
            "curl -sSfu ann:[password] https://x",
        ),
        (
            "curl -sku ann:s3cret https://x",
            "curl -sku ann:[password] https://x",
        ),
        (
            "curl -skuann:s3cret https://x",
            "curl -skuann:[password] https://x",
        ),
        (
            "http -a ann:s3cret https://x",
            "http -a ann:[password] https://x",
        ),
        ("https -a ann:s3cret x.org", "https -a ann:[password] x.org"),
        ("vault login s3cret", "vault login [password]"),
        (
            "vault login -no-print s3cret",
            "vault login -no-print [password]",
        ),
    ]);
    check(&[
        (
            format!("git clone https://{}@github.com/a/b", hex(40)),
            "git clone https://[url-password]@github.com/a/b",
        ),
        (
            format!("git clone https://{}@github.com/a/b", random(16)),
            "git clone https://[url-password]@github.com/a/b",
        ),
        (
            format!("acme -v -p {} x", random(16)),
            "acme -v -p [password] x",
        ),
    ]);
    check_kept(&[
        "curl -so user:file https://x",
        "curl -ou:x https://x",
        "curl -H a:b -sS https://x",
        "http -a $U:$P x",
        "vault login",
        "vault login -method=userpass username=ann",
        "the vault login page is slow",
        "ssh -p 2222 ann@host",
        "mkdir -p src/components2/Button",
        "docker run -p 127.0.0.1:8080:80 x",
        "cargo test -p relight-core",
        "git clone https://ann@github.com/a/b",
        "git clone https://my-company-bot2@github.com/a/b",
        "ssh://deploy-user-2024@host/x",
    ]);
}

#[test]
fn passwords_in_the_operands_of_commands() {
    check_plain(&[
        ("vault login root", "vault login [password]"),
        ("$ vault login root && ls", "$ vault login [password] && ls"),
        (
            "vault operator unseal s3cret",
            "vault operator unseal [password]",
        ),
        (
            "http https://x.org/y -a ann:s3cret",
            "http https://x.org/y -a ann:[password]",
        ),
        (
            "http :8080/y --auth ann:s3cret",
            "http :8080/y --auth [assignment]",
        ),
        ("sqlplus ann/s3cret@db", "sqlplus ann/[password]@db"),
        (
            "sqlplus -s ann/s3cret @x.sql",
            "sqlplus -s ann/[password] @x.sql",
        ),
        (
            "htpasswd -cb .htpasswd ann s3cret",
            "htpasswd -cb .htpasswd ann [password]",
        ),
        (
            "htpasswd -nbB ann s3cret > x",
            "htpasswd -nbB ann [password] > x",
        ),
        (
            "docker login -u ann -p s3cret x.org",
            "docker login -u ann -p [password] x.org",
        ),
        ("az login -u ann -p s3cret", "az login -u ann -p [password]"),
        (
            "aws configure set aws_secret_access_key s3cret",
            "aws configure set aws_secret_access_key [assignment]",
        ),
        (
            "gh auth login --with-token <<< s3cret",
            "gh auth login --with-token <<< [password]",
        ),
        (
            "docker login --password-stdin <<< 's3cret'",
            "docker login --password-stdin <<< '[password]'",
        ),
        ("redis-cli -a s3cret ping", "redis-cli -a [password] ping"),
        (
            "mongosh -u ann -p s3cret db",
            "mongosh -u ann -p [password] db",
        ),
        ("PGPASSWORD=s3cret psql", "PGPASSWORD=[assignment] psql"),
        ("sshpass -ps3cret ssh x", "sshpass -p[password] ssh x"),
        ("ldapsearch -x -w s3cret", "ldapsearch -x -w [password]"),
        (
            "smbclient //h/s -U ann%s3cret",
            "smbclient //h/s -U ann%[password]",
        ),
        (
            "openssl rsa -passin pass:s3cret",
            "openssl rsa -passin pass:[password]",
        ),
        (
            "ansible-vault encrypt_string 's3cret' --name x",
            "ansible-vault encrypt_string '[password]' --name x",
        ),
        (
            "kubectl create secret generic x --from-literal=user=s3cret",
            "kubectl create secret generic x --from-literal=user=[password]",
        ),
        (
            "gh secret set NAME -b s3cret",
            "gh secret set NAME -b [password]",
        ),
        (
            "fly secrets set NAME=s3cret",
            "fly secrets set NAME=[password]",
        ),
        (
            "aws ssm put-parameter --type SecureString --value s3cret",
            "aws ssm put-parameter --type SecureString --value [password]",
        ),
        (
            "curl -H 'X-Api-Key: s3cret' x",
            "curl -H 'X-Api-Key: [assignment]' x",
        ),
        (
            "wget --user=ann --password=s3cret x",
            "wget --user=ann --password=[assignment] x",
        ),
        (
            "git clone https://ann:s3cret@x.org/y",
            "git clone https://ann:[url-password]@x.org/y",
        ),
        (
            "PsExec.exe \\\\h -u ann -p s3cret cmd",
            "PsExec.exe \\\\h -u ann -p [password] cmd",
        ),
        (
            "xfreerdp /u:ann /p:s3cret /v:h",
            "xfreerdp /u:ann /p:[password] /v:h",
        ),
        (
            "rabbitmqctl add_user ann s3cret",
            "rabbitmqctl add_user ann [password]",
        ),
    ]);
    check_kept(&[
        "the vault login failed",
        "vault login -method=oidc",
        "sqlplus / as sysdba",
        "htpasswd .htpasswd ann",
        "kubectl create secret generic x --from-literal=a=$A",
        "kubectl create configmap x --from-literal=a=b",
        "HTTP 404 -a b:c is not a command of ours: http error",
        "gh auth login --with-token <<< $TOKEN",
        "secret set of rules -b",
    ]);
    let words = ["sqlplus", "ann/s3cret@db"];
    assert_eq!(
        without_digits(&redactor().command(&words).join(" ")),
        "sqlplus ann/[password]@db"
    );
}

#[test]
fn values_in_other_places_near_their_names() {
    let token = random(32);
    check(&[
        (
            format!("acme token - '{token}'"),
            "acme token - '[assignment]'",
        ),
        (
            format!("acme token = '{token}' | '{token}'"),
            "acme token = '[assignment]' | '[assignment]'",
        ),
        (format!("acme-secret-{token}"), "acme-secret-[assignment]"),
        (format!("mixpanel {token}"), "mixpanel [assignment]"),
        (format!("railway = '{token}'"), "railway = '[assignment]'"),
        (format!("acme KEY {token}"), "acme KEY [assignment]"),
        (
            format!("Unseal Key 2: {token}"),
            "Unseal Key 2: [assignment]",
        ),
        (format!("vendor-key:{token}"), "vendor-key:[assignment]"),
        (
            format!("API_SECRET = getenv(\"X\", \"{token}\")"),
            "API_SECRET = getenv(\"X\", \"[assignment]\")",
        ),
        (
            format!("SECRET = os.environ.get(\"X\") or \"{token}\""),
            "SECRET = os.environ.get(\"X\") or \"[assignment]\"",
        ),
        (
            format!("String ACCOUNT_KEY\n    = \"{token}\";"),
            "String ACCOUNT_KEY\n    = \"[assignment]\";",
        ),
        (
            format!("setopt(curl, CURLOPT_PASSWORD, \"{token}\");"),
            "setopt(curl, CURLOPT_PASSWORD, \"[assignment]\");",
        ),
        (format!("acme_live_{token}"), "[live-key]"),
    ]);
    check_plain(&[
        (
            "<key>Password</key>\n  <string>swordfish</string>",
            "<key>Password</key>\n  <string>[assignment]</string>",
        ),
        (
            "ALTER USER x IDENTIFIED WITH sha256_password BY 'swordfish';",
            "ALTER USER x IDENTIFIED WITH sha256_password BY '[password]';",
        ),
        (
            "CREATE USER x IDENTIFIED BY s3cr3tPw;",
            "CREATE USER x IDENTIFIED BY [password];",
        ),
        (
            "CREATE ROLE x WITH LOGIN PASSWORD s3cr3tPw;",
            "CREATE ROLE x WITH LOGIN PASSWORD [password];",
        ),
        (
            "user: ann\npass: test_login\n",
            "user: ann\npass: [assignment]\n",
        ),
        (
            "#define\tPASSWORD\t\"swordfish\"",
            "#define\tPASSWORD\t\"[assignment]\"",
        ),
        ("PSSWD:=swordfish1", "PSSWD:=[assignment]"),
        ("db_pasword: swordfish", "db_pasword: [assignment]"),
    ]);
    check_kept(&[
        "pass: test_login\npass: test_logout\n",
        "identified by their names, identified with care",
        "the login password is asked for",
        "cache key 9f86d081884c7d659a2feaa0c55ad015",
        "acme_key = ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        "pod/default-token-x7k2p and my-secret-7d9f8b6c5d",
        "d1Pbk+HT41Psk8sUC9QWVBiUM1Q4lDxUPlQblFxUbZRuVEAY2Bj6W0Ibl1vb2",
        "<key>CFBundleName</key>\n<string>Relight</string>",
        "api_key = os.environ.get(\"API_KEY\", \"\")",
        "api_key = getenv(\"X",
    ]);
}

#[test]
fn a_private_key_in_a_literal_over_several_lines_goes_whole() {
    let (begin, end) = (
        ["-----BEGIN RSA PRIV", "ATE KEY-----"].concat(),
        ["-----END RSA PRIV", "ATE KEY-----"].concat(),
    );
    let line = random(64);
    check(&[
        (
            format!("token = '{begin}\n{line}\n{end}'\nb"),
            "token = '[pem]'\nb",
        ),
        (
            format!("KEY = \"{begin}\\n\"\n + \"{line}\\n\"\n + \"{end}\""),
            "KEY = \"[pem]\"",
        ),
    ]);
}

#[test]
fn each_name_and_format_is_known_behind_a_colour_too() {
    let tokens = [
        ["M", &random(23), ".", &random(6), ".", &random(38)].concat(),
        ["S", "K", &hex(32)].concat(),
        ["xkey", "sib-", &hex(64), "-", &random(16)].concat(),
        ["HR", "KU-AA", &random(58)].concat(),
        ["nf", "p_", &random(36)].concat(),
        [&random(14), ".atl", "asv1.", &random(64)].concat(),
        ["pu", "l-", &hex(40)].concat(),
        ["pa", "t", &random(14), ".", &hex(64)].concat(),
    ];
    let assignments = [
        "password: |\n  {s}\nuser: ann",
        "db_password:\n  {s}\n",
        "passphrase: correct horse battery {s}",
        "define('X_PASSWORD', '{s}');",
        "machine x.org login ann password {s}",
        "PresharedKey = {s}",
        "pw: {s}",
        "PSWD={s}",
        "vendor_key = {s}",
        "#define password \"{s}\"",
    ];
    let secret = "k3r9qz7wx2v8m4tn";
    let texts = tokens.iter().map(|token| (token.clone(), token.as_str()));
    let named = assignments
        .iter()
        .map(|text| (text.replace("{s}", secret), secret));
    let redactor = redactor();
    for (text, secret) in texts.chain(named) {
        for colour in ["", "\u{1b}[1;32m", "\\u001b[33m"] {
            let clean = redactor.text(&format!("{colour}{text}")).into_owned();
            assert!(!clean.contains(secret), "{colour}{text}: {clean}");
        }
    }
}

/// A generated value behind a word of credentials, however the service is called.
#[test]
fn words_of_credentials_before_a_generated_value_are_read_in_any_form() {
    let (token, digest) = (random(32), hex(40));
    let uuid = format!("{}-{}-{}-{}-{}", hex(8), hex(4), hex(4), hex(4), hex(12));
    check(&[
        (
            format!("acmePRIVATEkey-{digest}"),
            "acmePRIVATEkey-[assignment]",
        ),
        (format!("acmeACCESS:{uuid}"), "acmeACCESS:[assignment]"),
        (
            format!("acmecorp PRIVATEkey {digest}"),
            "acmecorp PRIVATEkey [assignment]",
        ),
        (
            format!("acmecorp ACCESS code {digest}"),
            "acmecorp ACCESS code [assignment]",
        ),
        (
            format!("acmecorp private-key {uuid}"),
            "acmecorp private-key [assignment]",
        ),
        (
            format!("acmecorp key {digest}\n"),
            "acmecorp key [assignment]\n",
        ),
        (
            format!("acmecorp SECRET k_{token}"),
            "acmecorp SECRET [assignment]",
        ),
        (
            format!("acme_key = abcd-{digest}"),
            "acme_key = [assignment]",
        ),
        (
            format!("smartsheet '{digest}'"),
            "smartsheet '[assignment]'",
        ),
        (
            format!("azure_search_key = {token}"),
            "azure_search_key = [assignment]",
        ),
    ]);
    check_plain(&[
        (
            "acme_key: \"hfCnuVcYOgiRjlDEmAoRbN\"",
            "acme_key: \"[assignment]\"",
        ),
        (
            "Activation key : ZAQWS-XCDER-VBGTR-FRTGU-KLMNX",
            "Activation key : [assignment]",
        ),
    ]);
    check_kept(&[
        "gpg: using RSA key 4AEE18F83AFDEB23D5A2C3A0B6D2F8B1C5A7E9F0",
        "cache key 9f86d081884c7d659a2feaa0c55ad0159f86d081",
        "Using key 9f86d081884c7d659a2feaa0c55ad0159f86d081",
        "smartsheet 9f86d081884c7d659a2feaa0c55ad0159f86d081",
        "acme_key = getTheKeyOfTheFirstItemOrDefault",
        "google_public_key = dGhpc0lzQVRlc3Q0MgZx81kQp02mVnB7sT",
    ]);
}

#[test]
fn schemes_of_one_service_are_read() {
    let token = random(30);
    check(&[
        (
            format!("Authorization: GenieKey {token}"),
            "Authorization: GenieKey [authorization]",
        ),
        (
            format!("-H \"Authorization: SSWS {token}\""),
            "-H \"Authorization: SSWS [authorization]\"",
        ),
    ]);
    check_kept(&["Authorization: see the documentation of the service"]);
}

#[test]
fn passwords_among_the_arguments_of_a_login_are_found() {
    let word = format!("Tr0ub{}", "4dor3");
    check(&[
        (
            format!("smtp.login('ann@x.org', '{word}')"),
            "smtp.login('ann@x.org', '[password]')",
        ),
        (
            format!("mysql_connect(\"localhost\", \"root\", \"{word}\")"),
            "mysql_connect(\"localhost\", \"root\", \"[password]\")",
        ),
        (
            format!("DriverManager.getConnection(url, \"root\", \"{word}\")"),
            "DriverManager.getConnection(url, \"root\", \"[password]\")",
        ),
        (
            format!("ConvertTo-SecureString -String '{word}' -AsPlainText"),
            "ConvertTo-SecureString -String '[password]' -AsPlainText",
        ),
    ]);
    check_kept(&[
        "client.login(\"ann\", password)",
        "socket.connect(\"example.com\", 8080, \"tcp\")",
        "signal.connect(\"clicked\", handler, \"data\")",
    ]);
}

#[test]
fn passwords_of_somebody_and_in_settings_of_devices_are_found() {
    let word = format!("Tr0ub{}", "4dor3");
    check(&[
        (
            format!("password for ann: {word}"),
            "password for ann: [assignment]",
        ),
        (
            format!("the password of root is {word}"),
            "the password of root is [assignment]",
        ),
        (
            format!("username ann password 0 {word}\n"),
            "username ann password 0 [assignment]\n",
        ),
        (
            format!("ppp chap password {word}\n"),
            "ppp chap password [assignment]\n",
        ),
        (format!("bindpw: {word}"), "bindpw: [assignment]"),
        (
            format!("<entry key=\"db.password\">{word}</entry>"),
            "<entry key=\"db.password\">[assignment]</entry>",
        ),
        (
            format!("<password encrypted=\"false\">{word}</password>"),
            "<password encrypted=\"false\">[assignment]</password>",
        ),
    ]);
    check_kept(&[
        "[sudo] password for ann:",
        "password for the account is required",
        "use the password ${DB_PASS1}\n",
        "<label for=\"password\">Password</label>",
        "<input type=\"password\">Enter it</input>",
    ]);
}

#[test]
fn tokens_in_the_paths_of_hooks_are_found() {
    let uuid = format!("{}-{}-{}-{}-{}", hex(8), hex(4), hex(4), hex(4), hex(12));
    check(&[
        (
            format!("https://x.example/api/v2/hook/{uuid}"),
            "https://x.example/api/v2/[webhook]",
        ),
        (
            format!("https://mainnet.infura.io/v3/{}", hex(32)),
            "https://mainnet.[infura]",
        ),
    ]);
    check_kept(&["https://example.com/docs/webhooks/how-to-write-a-handler-for-events"]);
}

#[test]
fn values_after_names_in_capitals_need_no_digits_in_no_order() {
    check_plain(&[
        (
            "acmecorp SECRET abcDE1234567890",
            "acmecorp SECRET [assignment]",
        ),
        (
            "acmecorp TOKEN ZYXWV9876543210",
            "acmecorp TOKEN [assignment]",
        ),
        (
            "acmecorp KEY qwertzuiopasdfghjklyxcvbnm",
            "acmecorp KEY [assignment]",
        ),
        (
            "acmecorp SECRET a1b2c3.d4e5f6.g7h8i9-j0k1",
            "acmecorp SECRET [assignment]",
        ),
        (
            "acmecorp Token 1234567-ABC1234-XYZ5678-0123456",
            "acmecorp Token [assignment]",
        ),
        (
            "password = env[\"PASS\"] ?: \"jWny3kd92Xk\"",
            "password = env[\"PASS\"] ?: \"[assignment]\"",
        ),
    ]);
    check_kept(&[
        "acmecorp KEY internationalisation",
        "the SECRET getTheSecretOfTheFirstItem",
        "password = env[\"PASS\"] ?: \"changeme\"",
    ]);
}

#[test]
fn more_formats_of_services_are_known() {
    let (long, digest) = (random(80), hex(32));
    check(&[
        (format!("1000.{digest}.{digest}"), "[zoho]"),
        (format!("na1.{long}"), "[fullstory]"),
        (format!("flb_live_{}", random(20)), "[fleetbase]"),
        (format!("EAAA{}+{}=x", random(30), random(20)), "[square]"),
        (
            format!("$krb5asrep$23$ann@example.com:{digest}${long}"),
            "[kerberos]",
        ),
        (
            "new DirectoryEntry(\"LDAP://a\", \"ann\", \"Rrhh1234\")".to_owned(),
            "new DirectoryEntry(\"LDAP://a\", \"ann\", \"[password]\")",
        ),
    ]);
}

#[test]
fn what_programs_write_behind_a_name_stays() {
    check_kept(&[
        "const createToken = (name, value, isGlobal) => {",
        "const noAuth = !request.headers.authorization",
        "exports.TOKEN = exports.STRICT_TOKEN.concat([' ']);",
        "const TOKEN_CHARS = CHARS.filter((c) => c !== 44);",
        "TOKEN_MAP = {\"NAME\": token.NAME,",
        "const HTTP_TOKEN = /^[!#$%&'*+a-z]+$/",
        "token = 1*tchar",
        "creds.email = email",
        "tokenData.packages = packages",
        "dot2_token: node.dot2_token,",
        "Input: Stream<Token = u8> + Clone,",
        "fn append(self, token_start: &<I as Stream>::Checkpoint)",
        "pub const IFLA_INET6_TOKEN: _bindgen_ty_7 = _bindgen_ty_7::IFLA_INET6_TOKEN;",
    ]);
    check_plain(&[
        (
            "creds.email = x8fJ2kd93LxQz71",
            "creds.email = [assignment]",
        ),
        ("creds.password = letmein", "creds.password = [assignment]"),
        ("password = (h4x0r)8", "password = [assignment]"),
    ]);
}

#[test]
fn keys_and_pairs_are_read_by_their_structure() {
    let (id, short, number) = (upper(16), random(24), random(43));
    let google = format!("{}-{}", "104207318842", random(32).to_ascii_lowercase());
    let aliyun = ["LT", "AI", &random(12)].concat();
    check(&[
        (
            format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{short}\",\"d\":\"{number}\"}}"),
            &format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{short}\",\"d\":\"[jwk]\"}}"),
        ),
        (
            format!("{{\"k\": \"{number}\", \"kid\": \"{id}\", \"kty\": \"oct\"}}"),
            &format!("{{\"k\": \"[jwk]\", \"kid\": \"{id}\", \"kty\": \"oct\"}}"),
        ),
        (
            format!("{google}.apps.googleusercontent.com\n{short}\n"),
            "[google]\n[google]\n",
        ),
        (
            format!("new Client({aliyun}, {})", random(30)),
            "new Client([alibaba], [alibaba])",
        ),
        (format!("{}.{}", hex(32), random(16)), "[access-token]"),
    ]);
    check_kept(&[
        "{\"kty\": \"RSA\", \"n\": \"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFb\", \"e\": \"AQAB\"}",
        "9f86d081884c7d659a2feaa0c55ad015.tar.gz",
        "9f86d081884c7d659a2feaa0c55ad015.chunk0001javascript",
    ]);
}

#[test]
fn private_keys_without_their_header_are_found_over_all_lines() {
    let (first, line) = (random(48), random(64));
    check(&[
        (["MIIEpA", "IBAAKCAQEA", &first].concat(), "[private-key]"),
        (
            ["MIIEvg", "IBADANBgkqhkiG9w0BAQEFA", &first].concat(),
            "[private-key]",
        ),
        (["MHcCAQ", "EEI", &random(150)].concat(), "[private-key]"),
        (
            [
                "data:\n  MIIBOg",
                "IBAAJB",
                &first,
                "\n  ",
                &line,
                "\n  ",
                &random(10),
                "==\nname: ann\n",
            ]
            .concat(),
            "data:\n  [private-key]\nname: ann\n",
        ),
        (
            ["\"MIICXA", "IBAAKBg", &first, "\\n", &line, "\\n\""].concat(),
            "\"[private-key]\\n\"",
        ),
    ]);
}

#[test]
fn tokens_are_found_whole_where_signs_are_escaped_or_follow() {
    let (long, token) = (random(60), random(26));
    check(&[
        (["AT", "ATT3", &long, "%3D0A1B2C3D"].concat(), "[atlassian]"),
        (
            ["AT", "ATT3", &long, "\\=0A1B2C3D&x"].concat(),
            "[atlassian]&x",
        ),
        (format!("acme_key_{token}_-{token}"), "[api-key]"),
        (format!("live_{token}"), "[live-key]"),
        (["sk_", "live_", &token, "-", &token].concat(), "[stripe]"),
        (
            [&random(11), "AAAAAAAAAA", &random(43)].concat(),
            "[dropbox]",
        ),
        (
            format!("https://x.example/api/token/{token}"),
            "https://x.example/api/[access-token]",
        ),
        (
            format!("acme token = ' {token} ' | ' {token} '"),
            "acme token = '[assignment]' | ' [assignment] '",
        ),
    ]);
    check_kept(&[
        "src/parser/token/identifier_of_the_statement.rs",
        "a%3D%3D",
        "my_api_key_of_the_item",
    ]);
}

#[test]
fn generated_values_are_found_under_any_name_that_is_not_public() {
    let (lower, mixed, digest) = ("3k7q9x2m5v8p1z4w6n0r3t7y2u5j8h1g", random(26), hex(32));
    check(&[
        (format!("owm = '{lower}'"), "owm = '[assignment]'"),
        (
            format!("forecast: \"{mixed}\""),
            "forecast: \"[assignment]\"",
        ),
        (
            format!("acmecorp-access-{digest}"),
            "acmecorp-access-[assignment]",
        ),
        (
            format!("acmecorpaccess {digest}"),
            "acmecorpaccess [assignment]",
        ),
        (
            format!("https://x.example/?key={}", "wqzjvkxpbrtglmns"),
            "https://x.example/?key=[assignment]",
        ),
        (
            format!("apiKey | {digest}\nurl | https://x.example"),
            "apiKey | [assignment]\nurl | https://x.example",
        ),
        (format!("API_KEY - {mixed}"), "API_KEY - [assignment]"),
        (
            "define('access_token', 'FnaQEDN71LJjSxy');".to_owned(),
            "define('access_token', '[assignment]');",
        ),
        (
            "acmecorp_key = KQZVXWLTRB2MHNDPCYGJ".to_owned(),
            "acmecorp_key = [assignment]",
        ),
        (
            format!("smartsheet = Some(\"{digest}\")"),
            "smartsheet = Some(\"[assignment]\")",
        ),
    ]);
    let kept = [
        format!("checksum = '{lower}'"),
        format!("session.id={mixed}"),
        format!("granted access {digest}"),
    ];
    check_kept(&kept.each_ref().map(String::as_str));
    check_kept(&[
        "https://x.example/?key=title&sort=asc",
        "https://x.example/?key=user_settings_of_the_page",
        "token - the word that the parser reads",
        "password | what the user types",
    ]);
}

#[test]
fn translations_types_and_names_of_headers_stay() {
    check_kept(&[
        "'Clear Authentication': 'Anmeldung entfernen',",
        "\"Use your own API key\": \"Eigener Schlüssel\"",
        "\"AWS::IAM::AccessKey\": \"resource-of-iam\",",
        "for (const name of [\"authorization\", \"proxy-authorization\", \"x-trace\"]) {",
    ]);
    check_plain(&[
        (
            "\"API key\": \"x8fJ2kd93LxQz71\"",
            "\"API key\": \"[assignment]\"",
        ),
        (
            "\"password\": \"correct horse\"",
            "\"password\": \"[assignment]\"",
        ),
    ]);
}
