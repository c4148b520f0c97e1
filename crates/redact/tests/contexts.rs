//! Values that stand elsewhere than behind their name, and what only looks like a value there.

use crate::text::{check, check_kept, hex, random};

#[test]
fn values_in_here_documents_blocks_and_behind_tags_are_found() {
    let token = random(24);
    check(&[
        (
            format!("db_password = <<EOF\n{token}\nEOF\nnext = 1\n"),
            "db_password = <<EOF\n[assignment]\nEOF\nnext = 1\n",
        ),
        (
            format!("TOKEN=<<-'END'\n  {token}\n  END\n"),
            "TOKEN=<<-'END'\n  [assignment]\n  END\n",
        ),
        (
            format!("password: !!str {token}"),
            "password: !!str [assignment]",
        ),
        (
            format!("variable \"db_password\" {{\n  type = string\n  default = \"{token}\"\n}}"),
            "variable \"db_password\" {\n  type = string\n  default = \"[assignment]\"\n}",
        ),
        (
            format!("Access token\n{token}\nAnother line"),
            "Access token\n[assignment]\nAnother line",
        ),
        (
            format!("with this password:\n\n{token}\n\nIt is"),
            "with this password:\n\n[assignment]\n\nIt is",
        ),
    ]);
    check_kept(&[
        "password = <<EOF\n${password}\nEOF\n",
        "variable \"db_password\" {\n  default = \"\"\n}",
        "variable \"db_password\" {\n  sensitive = true\n}",
        "The access token\nexpires after an hour.",
        "The password:\n\nSome prose follows here.",
        "password << EOF",
    ]);
}

#[test]
fn secrets_of_kubernetes_are_read_in_any_layout() {
    let value = random(28);
    for (before, behind) in [
        ("apiVersion: v1\nkind: Secret\ndata:\n  a.b: ", "\n"),
        (
            "data:\n\textra: '",
            "'\nkind: 'Secret'\nmetadata:\n\tname: x\n",
        ),
        ("kind: \"secret\"\nstringData:\n  .cfg: |\n    ", "\n"),
        ("data:\n  # a note\n  .cfg: >\n    ", "\nkind: Secret\n"),
    ] {
        check(&[(
            format!("{before}{value}{behind}"),
            &format!("{before}[kubernetes]{behind}"),
        )]);
    }
    check_kept(&[
        "kind: Secret\nmetadata:\n  name: my-name-of-it-2\n",
        "kind: ConfigMap\ndata:\n  mode: fast-and-loose-2\n",
    ]);
}

#[test]
fn plain_words_are_values_where_a_file_holds_values_only() {
    check(&[
        (
            "Server=h;Uid=ann;Password=letmein;Timeout=3".to_owned(),
            "Server=h;Uid=ann;Password=[assignment];Timeout=3",
        ),
        (
            "Data Source=h;User ID=u;Pwd=myPassword;".to_owned(),
            "Data Source=h;User ID=u;Pwd=[assignment];",
        ),
        (
            "SMTP_PASSWORD=smtp_password\n".to_owned(),
            "SMTP_PASSWORD=[assignment]\n",
        ),
        (
            "[site]\nUsername=ann\nPassword=mypassword\n".to_owned(),
            "[site]\nUsername=ann\nPassword=[assignment]\n",
        ),
        (
            "credentials {\n  password 'password'\n}".to_owned(),
            "credentials {\n  password '[assignment]'\n}",
        ),
    ]);
    check_kept(&[
        "connect(\n    user=user,\n    password=password\n)",
        "login(user, password=password)",
        "PASSWORD=$password",
    ]);
}

#[test]
fn tokens_with_signs_in_them_are_found_behind_an_unknown_prefix() {
    let body = format!("{}-{}_{}", random(14), random(12), random(16));
    check(&[
        (
            format!("got acme_{body} from it"),
            "got [access-token] from it",
        ),
        (format!("acme-oat-{body}"), "[access-token]"),
        (format!("id 12-{}", random(64)), "id [access-token]"),
        (format!("s.{}", random(24)), "[vault]"),
    ]);
    check_kept(&[
        "a_long_name_of_a_function-with-signs_and_words_in_it",
        "image-2026-11-18-build-4211-linux-amd64-release-candidate-3",
        "acme_9f86d081-884c-4d65-9a2f-eaa0c55ad015_and_more_of_it",
        "xs.someMethodNameOfTwentyFour",
    ]);
}

#[test]
fn misspelt_and_told_names_are_read() {
    let token = random(16);
    check(&[
        (
            format!("passworsd = \"{token}\""),
            "passworsd = \"[assignment]\"",
        ),
        (format!("paasword: {token}"), "paasword: [assignment]"),
        (
            "the api_key is Tr0ub4dor&3.".to_owned(),
            "the api_key is [assignment].",
        ),
        (
            format!(
                "acmecorp-key-{}-{}-{}-{}-{}",
                hex(8),
                hex(4),
                hex(4),
                hex(4),
                hex(12)
            ),
            "acmecorp-key-[assignment]",
        ),
    ]);
    check_kept(&[
        "the token is RS256 by default.",
        "the secret is base64.",
        "the api key is required.",
    ]);
}

#[test]
fn codes_letters_modules_and_patterns_stay() {
    check_kept(&[
        "<a accesskey=\"h\" href=\"index.html\">",
        "'CREDENTIALS_PROFILE': 'n',",
        "INVALID_CREDENTIAL = \"invalid-credential\",",
        "AdminGpgKey: \"admin:gpg_key\",",
        "'Cookie': 'http.cookies',",
        "IPV4_PAT = r\"(?:[0-9]{1,3}\\.){3}[0-9]{1,3}\"",
        "print(\"token=\" + repr(raw))",
        "\"AWS::IAM::AccessKey\": \"48205d4ffd7feba3\",",
        "*x = SecretData_AcmeOAuth2JWTCredentials{}",
        "header = awscrt.auth.AwsSignedBodyHeaderType.NONE",
        "Token: \"STRING_VALUE\",",
        "pwd=None",
        "self.token = nextchar",
        "secrets: inherit",
        "api_key: <your api key here>",
        "password: changeme",
    ]);
}

#[test]
fn defaults_are_found_where_a_setting_is_missing() {
    let token = hex(32);
    check(&[
        (
            format!("String API_TOKEN = readVariable(\"API_TOKEN\") ?? \"{token}\";"),
            "String API_TOKEN = readVariable(\"API_TOKEN\") ?? \"[assignment]\";",
        ),
        (
            format!("const val TOKEN: String = System.getenv(\"TOKEN\") ?: \"{token}\""),
            "const val TOKEN: String = System.getenv(\"TOKEN\") ?: \"[assignment]\"",
        ),
        (
            format!("char *token = getenv(\"TOKEN\") ? getenv(\"TOKEN\") : \"{token}\";"),
            "char *token = getenv(\"TOKEN\") ? getenv(\"TOKEN\") : \"[assignment]\";",
        ),
        (
            format!("local token = (os.getenv(\"TOKEN\") or \"{token}\")"),
            "local token = (os.getenv(\"TOKEN\") or \"[assignment]\")",
        ),
        (
            format!("token := cmp.Or(os.Getenv(\"TOKEN\"), \"{token}\")"),
            "token := cmp.Or(os.Getenv(\"TOKEN\"), \"[assignment]\")",
        ),
        (
            "\"DbPassword\": {\n  \"Type\": \"String\",\n  \"Default\": \"Kx93mfPa2q\"\n}"
                .to_owned(),
            "\"DbPassword\": {\n  \"Type\": \"String\",\n  \"Default\": \"[assignment]\"\n}",
        ),
        (
            "DbPassword:\n  Type: String\n  Default: Kx93mfPa2q\n".to_owned(),
            "DbPassword:\n  Type: String\n  Default: [assignment]\n",
        ),
    ]);
    check_kept(&[
        "const PRIVATE_KEY: &[u8] = include_bytes!(\"data/ecdsa_p256_key_2.p8\");",
        "token = (os.getenv(\"TOKEN\") or \"\")",
        "token = getenv(\"TOKEN\") ? load(\"TOKEN\") : \"none\"",
        "\"Password\": {\"type\": \"string\", \"default\": null}",
        "password:\n  type: string\n  required: true\nother:\n  default: Kx93mfPa2q\n",
        "authorization: { type: Bearer, credentials_file: /etc/x }",
    ]);
}

#[test]
fn values_tied_in_other_ways_are_found() {
    let token = hex(32);
    check(&[
        (
            format!("\"token\" to \"{token}\""),
            "\"token\" to \"[assignment]\"",
        ),
        (
            format!("\"api_key\"  \"{token}\"\n"),
            "\"api_key\"  \"[assignment]\"\n",
        ),
        (
            format!("$ENV{{API_TOKEN}} = '{token}';"),
            "$ENV{API_TOKEN} = '[assignment]';",
        ),
        (format!("api_token;{token}\n"), "api_token;[assignment]\n"),
        (
            format!("password, token := \"Kx93mfPa2q\", \"{token}\""),
            "password, token := \"[assignment]\", \"[assignment]\"",
        ),
        (
            format!("Invalid API key provided: {token}. Try again"),
            "Invalid API key provided: [assignment]. Try again",
        ),
        (
            format!("the token ({token}) is gone"),
            "the token ([assignment]) is gone",
        ),
        (
            format!("printf '%s' '{token}' | gh auth login --with-token"),
            "printf '%s' '[password]' | gh auth login --with-token",
        ),
        (
            "SET authentication_string = PASSWORD ('Kx93mfPa2q')".to_owned(),
            "SET authentication_string = PASSWORD ('[assignment]')",
        ),
        (
            format!("github_pat = \"\"\"{}\"\"\"", hex(32)),
            "github_pat = \"\"\"[assignment]\"\"\"",
        ),
        ("ID/PW ann / Kx93mfPa2q".to_owned(), "ID/PW [assignment]"),
        (
            "user/password: ann(Kx93mfPa2q)".to_owned(),
            "user/password: [assignment])",
        ),
        (
            format!("mail {}-{}-{}\\nb", hex(32), hex(8), hex(8)),
            "mail [access-token]\\nb",
        ),
        (
            format!("a\\n{}-{}-{}\\nb", hex(32), hex(8), hex(8)),
            "a\\n[access-token]\\nb",
        ),
        (format!("sk_live_{}+/{}", random(20), random(9)), "[stripe]"),
    ]);
    check_kept(&[
        "\"token\" to \"name\"",
        "the token (see RFC 6749, section 4.1) is short",
        "token;\nsecret,\nother_name_of_a_thing_2",
        "POST /user/password/reset HTTP/1.1",
        "user/password: both are required",
        "let (user, password) = (config.user, config.password);",
    ]);
}

#[test]
fn bytes_of_a_key_are_found() {
    const BYTES: &str = "53, 9, 0x64, 0x72, 245, 164, 134, 217, 225, 26, 0, 172, 39, 248, 203, 201";
    check(&[
        (
            format!("Secret: []byte{{{BYTES}}},"),
            "Secret: []byte[assignment],",
        ),
        (
            format!("let secret_key: [u8; 16] = [{BYTES}];"),
            "let secret_key: [u8; 16] = [assignment];",
        ),
        (
            format!("aes_key[16] = {{\n  {BYTES}\n}};"),
            "aes_key[16] = [assignment];",
        ),
        (
            format!("\"secretKey\": [{BYTES}]"),
            "\"secretKey\": [assignment]",
        ),
    ]);
    check_kept(&[
        "secret_key = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]",
        "password_lengths = [53, 9, 100, 114, 245, 164, 134, 217, 225, 26, 0, 172, 39, 248, 203, 201]",
        "secret_key = [7; 32]",
        "private_key(1, 2, 3)",
    ]);
}

#[test]
fn names_in_other_scripts_are_read() {
    for name in [
        "密码",
        "口令",
        "パスワード",
        "비밀번호",
        "пароль",
        "Пароль",
        "lozinka",
    ] {
        check(&[
            (
                format!("{name}: Kx93mfPa2q"),
                &format!("{name}: [assignment]"),
            ),
            (
                format!("{name}：Kx93mfPa2q"),
                &format!("{name}：[assignment]"),
            ),
            (
                format!("\"{name}\": \"Kx93mfPa2q\""),
                &format!("\"{name}\": \"[assignment]\""),
            ),
        ]);
    }
    check_kept(&[
        "'密码': '请输入密码'",
        "密码：不能为空",
        "пароль: обязательное поле",
        "비밀번호: 필수",
    ]);
}

#[test]
fn credentials_inside_base64_are_found() {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let file = format!(
        "{{\"type\": \"account\", \"client_secret\": \"{}\"}}",
        random(24)
    );
    check(&[(format!("got {}", encode(&file)), "got [encoded]")]);
    check_kept(&[&encode(
        "{\"type\": \"account\", \"name\": \"ann\", \"city\": \"Bern\"}",
    )]);
}

#[test]
fn keys_of_wordpress_are_found() {
    let key = "k;O$F_-W68 Fl*iEekX;-pn =fNS(;c9nDKt;5RW(&jtESXsW9+PhQFS!Tv?2Zx[";
    for name in ["AUTH_KEY", "LOGGED_IN_KEY", "NONCE_KEY", "SECURE_AUTH_SALT"] {
        check(&[(
            format!("define('{name}',   '{key}');"),
            &format!("define('{name}',   '[assignment]');"),
        )]);
    }
    check_kept(&[
        "define('AUTH_KEY',   'put your unique phrase here');",
        "define('NONCE_KEY', sprintf('%s: %s (%d of %d) [%s] {%s}', a, b, c, d, e));",
        "row_salt = \"9f86d081884c7d659a2f\"",
    ]);
}

#[test]
fn values_that_begin_like_variables_are_found() {
    let token = hex(32);
    check(&[
        (
            format!("secret = \"$A{token}\""),
            "secret = \"[assignment]\"",
        ),
        (
            format!("$gy$j9T${}${}", random(22), random(43)),
            "[password-hash]",
        ),
    ]);
    check_kept(&[
        "secret = \"$APP_SECRET_OF_THE_PRODUCTION_2\"",
        "let by_token = |last_token: Option<Token<'_>>, span: Range<usize>| {",
        "semi_token: *semi,",
        "crate::raw::TOKEN => Ok(Compound::RawValue { ser: self }),",
        "secret: *anchor\n",
    ]);
}

#[test]
fn folded_base64_is_read_to_its_end() {
    use base64::Engine as _;
    let text = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n", random(190));
    let code = base64::engine::general_purpose::STANDARD.encode(text);
    let folded: Vec<&str> = code
        .as_bytes()
        .chunks(76)
        .map(|line| std::str::from_utf8(line).expect("base64"))
        .collect();
    let folded = folded.join("\n");
    check(&[
        (
            format!("it is\n{folded}\nend of it\n"),
            "it is\n[encoded]\nend of it\n",
        ),
        (
            format!("private_key:\n{folded}\nend of it\n"),
            "private_key:\n[assignment]\nend of it\n",
        ),
    ]);
}

#[test]
fn passwords_that_programs_print_and_take_are_found() {
    check(&[
        (
            "A temporary password is generated for root@localhost: kQ9mVnB7sTx1".to_owned(),
            "A temporary password is generated for root@localhost: [assignment]",
        ),
        (
            "snmpwalk -v2c -c kQ9mVnB7sTx1 host".to_owned(),
            "snmpwalk -v2c -c [password] host",
        ),
        (
            "usermod -p kQ9mVnB7sTx1 ann".to_owned(),
            "usermod -p [password] ann",
        ),
        (
            "echo 'kQ9%mVnB7sTx1' | sudo -S ls".to_owned(),
            "echo '[password]' | sudo -S ls",
        ),
    ]);
    check_kept(&["A password is generated for each user: see the guide"]);
}
