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
