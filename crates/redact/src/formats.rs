//! Token formats that providers publish: a prefix, an alphabet and a length. `format_match.rs` finds them
//! in a text.
//!
//! Prefixes are compared with case. Longer prefixes stand before shorter ones of the same start.

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
    Digit,
    /// With `_ . ~ -`.
    Tilde,
    /// `A-Z` and digits.
    Upper,
    /// With `-`.
    UpperDash,
    /// With `%`.
    Percent,
    /// With `_ - . + / =`.
    Wide,
    /// With `. / $ = , + -`, as password hashes are written.
    Crypt,
    /// With `_ - . + / = :`.
    Pair,
    /// With `_ - . !`.
    Session,
    /// With `_ - . / $ @ * : =`, as Kerberos tickets are written for guessing.
    Ticket,
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
pub(super) struct SecretFormat {
    pub(super) prefix: &'static str,
    pub(super) kind: &'static str,
    pub(super) alphabet: Alphabet,
    pub(super) len_min: usize,
    pub(super) trust: Trust,
}

/// What several prefixes have in common, and these.
type Row = (SecretFormat, &'static [&'static str]);

const fn row(
    kind: &'static str,
    alphabet: Alphabet,
    len_min: usize,
    trust: Trust,
    prefixes: &'static [&'static str],
) -> Row {
    (
        SecretFormat {
            prefix: "",
            kind,
            alphabet,
            len_min,
            trust,
        },
        prefixes,
    )
}

use Alphabet::{
    Alphanumeric, Base64, Crypt, Digit, Dotted, Hex, Pair, Path, Percent, Session, Ticket, Tilde,
    Upper, UpperDash, Url, Wide, Word,
};

/// The table: kind, alphabet, least length, trust and the prefixes. Minimal lengths are below the
/// published ones where tokens may be torn.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("github", Word, 22, Trust::Prefix, &["github_pat_"]),
    row("github", Alphanumeric, 20, Trust::Prefix, &["ghp_", "gho_", "ghu_", "ghr_"]),
    row("github", Dotted, 20, Trust::Prefix, &["ghs_"]),
    row("gitlab", Dotted, 16, Trust::Prefix, &["glpat-"]),
    row("gitlab", Dotted, 16, Trust::Word, &[
        "glrt-", "gldt-", "glcbt-", "glptt-", "glsoat-", "gloas-", "glffct-", "glft-", "glimt-",
        "glwt-", "glrtr-",
    ]),
    row("gitlab", Url, 20, Trust::Word, &["glagent-"]),
    row("gitlab", Url, 18, Trust::Prefix, &["GR1348941"]),
    row("gitlab", Alphanumeric, 30, Trust::Prefix, &["_gitlab_session="]),
    row("atlassian", Base64, 24, Trust::Word, &["ATATT3", "ATCTT3", "ATSTT3"]),
    row("atlassian", Alphanumeric, 28, Trust::Random, &["ATBB"]),
    row("trello", Alphanumeric, 60, Trust::Word, &["ATTA"]),
    row("bitbucket", Base64, 40, Trust::Word, &["BBDC-"]),
    row("sourcegraph", Word, 38, Trust::Word, &["sgp_"]),
    row("sourcegraph", Hex, 40, Trust::Word, &["slk_"]),
    row("aws", Upper, 16, Trust::Word, &[
        "AKIA", "ASIA", "ABIA", "ACCA", "AGPA", "AIDA", "AIPA", "ANPA", "ANVA", "APKA", "AROA",
        "ASCA",
    ]),
    row("aws", Upper, 17, Trust::Word, &["A3T"]),
    row("bedrock", Base64, 100, Trust::Word, &["ABSK"]),
    row("bedrock", Base64, 20, Trust::Prefix, &["bedrock-api-key-"]),
    row("aws-session", Base64, 80, Trust::Word, &["FwoGZXIvYXdz", "IQoJb3JpZ2lu"]),
    row("amazon-mws", Url, 36, Trust::Prefix, &["amzn.mws."]),
    row("appsync", Alphanumeric, 26, Trust::Word, &["da2-"]),
    row("google", Url, 30, Trust::Prefix, &["AIza"]),
    row("google", Url, 10, Trust::Prefix, &["ya29.", "GOCSPX-"]),
    row("google", Url, 40, Trust::Word, &["1//0", "4/0A"]),
    row("google", Upper, 36, Trust::Random, &["GOOG1E"]),
    row("google", Upper, 20, Trust::Random, &["GOOG"]),
    row("google", Url, 30, Trust::Random, &["AQ.Ab8"]),
    row("alibaba", Alphanumeric, 12, Trust::Random, &["LTAI"]),
    row("alibaba", Alphanumeric, 30, Trust::Random, &["STS."]),
    row("tencent", Alphanumeric, 32, Trust::Random, &["AKID"]),
    row("volcengine", Url, 40, Trust::Random, &["AKLT"]),
    row("jdcloud", Upper, 24, Trust::Random, &["JDC_"]),
    row("digitalocean", Alphanumeric, 32, Trust::Prefix, &["dop_v1_", "doo_v1_", "dor_v1_"]),
    row("yandex", Url, 35, Trust::Random, &["AQVN"]),
    row("yandex", Url, 36, Trust::Random, &["YCAJ", "YCN", "YCP", "YCM"]),
    row("yandex", Url, 50, Trust::Random, &["y0_"]),
    row("yandex", Wide, 86, Trust::Random, &["t1."]),
    row("scalingo", Url, 40, Trust::Word, &["tk-us-"]),
    row("vk", Url, 60, Trust::Word, &["vk1.a."]),
    row("heroku", Url, 30, Trust::Prefix, &["HRKU-"]),
    row("fly", Url, 40, Trust::Random, &["fo1_"]),
    row("fly", Base64, 60, Trust::Random, &["fm1a_", "fm1r_", "fm2_"]),
    row("netlify", Alphanumeric, 36, Trust::Prefix, &["nfp_", "nfc_", "nfo_", "nfu_", "nfb_"]),
    row("vercel", Url, 24, Trust::Random, &["vcp_", "vci_", "vca_", "vcr_", "vck_"]),
    row("vercel", Word, 30, Trust::Prefix, &["vercel_blob_rw_"]),
    row("render", Alphanumeric, 28, Trust::Random, &["rnd_"]),
    row("cloudflare", Url, 140, Trust::Word, &["v1.0-"]),
    row("cloudflare", Alphanumeric, 36, Trust::Random, &["cfut_", "cfat_", "cfk_"]),
    row("supabase", Url, 36, Trust::Random, &["sbp_"]),
    row("supabase", Url, 16, Trust::Word, &["sb_secret_", "sb_publishable_"]),
    row("neon", Alphanumeric, 40, Trust::Random, &["napi_"]),
    row("cockroach", Word, 36, Trust::Word, &["CCDB1_"]),
    row("elastic", Base64, 40, Trust::Random, &["essu_"]),
    row("upcloud", Alphanumeric, 24, Trust::Random, &["ucat_"]),
    row("planetscale", Wide, 30, Trust::Word, &["pscale_tkn_", "pscale_pw_", "pscale_oauth_"]),
    row("databricks", Hex, 32, Trust::Word, &["dapi", "dose", "dkea"]),
    row("clickhouse", Alphanumeric, 38, Trust::Random, &["4b1d"]),
    row("confluent", Base64, 50, Trust::Random, &["cflt"]),
    row("docker", Url, 16, Trust::Prefix, &["dckr_pat_", "dckr_oat_"]),
    row("docker-swarm", Url, 60, Trust::Prefix, &["SWMTKN-1-"]),
    row("docker-swarm", Base64, 36, Trust::Prefix, &["SWMKEY-1-"]),
    row("k3s", Hex, 40, Trust::Word, &["K10"]),
    row("openshift", Url, 40, Trust::Prefix, &["sha256~"]),
    row("deno", Alphanumeric, 36, Trust::Random, &["ddp_", "ddw_", "ddo_"]),
    row("vault", Url, 20, Trust::Word, &["hvs.", "hvb.", "hvr.", "b.AAAAAQ"]),
    row("doppler", Dotted, 30, Trust::Word, &[
        "dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit.",
    ]),
    row("infracost", Alphanumeric, 30, Trust::Word, &["ico-"]),
    row("pulumi", Alphanumeric, 32, Trust::Prefix, &["pul-"]),
    row("prefect", Alphanumeric, 32, Trust::Word, &["pnu_", "pnb_"]),
    row("tailscale", Url, 20, Trust::Prefix, &["tskey-"]),
    row("netbird", Alphanumeric, 32, Trust::Random, &["nbp_"]),
    row("akamai", Url, 30, Trust::Word, &["akab-"]),
    row("defined-networking", Base64, 60, Trust::Prefix, &["dnkey-"]),
    row("harness", Dotted, 60, Trust::Random, &["pat.", "sat."]),
    row("octopus", Upper, 26, Trust::Random, &["API-"]),
    row("1password", UpperDash, 32, Trust::Word, &["A3-"]),
    row("1password", Base64, 100, Trust::Prefix, &["ops_eyJ"]),
    row("endor", Url, 14, Trust::Random, &["endr+"]),
    row("anthropic", Url, 16, Trust::Prefix, &["sk-ant-"]),
    row("openai", Url, 16, Trust::Prefix, &["sk-proj-", "sk-svcacct-"]),
    row("openai", Url, 20, Trust::Prefix, &["sk-admin-"]),
    row("openrouter", Alphanumeric, 32, Trust::Prefix, &["sk-or-v1-"]),
    row("openai", Url, 20, Trust::Random, &["sk-"]),
    row("openai", Alphanumeric, 36, Trust::Random, &["sess-"]),
    row("huggingface", Alphanumeric, 30, Trust::Word, &["hf_", "api_org_"]),
    row("groq", Alphanumeric, 30, Trust::Word, &["gsk_"]),
    row("xai", Url, 40, Trust::Word, &["xai-"]),
    row("replicate", Url, 30, Trust::Word, &["r8_"]),
    row("perplexity", Alphanumeric, 30, Trust::Word, &["pplx-"]),
    row("nvidia", Url, 40, Trust::Word, &["nvapi-"]),
    row("tavily", Url, 20, Trust::Random, &["tvly-"]),
    row("cerebras", Alphanumeric, 36, Trust::Random, &["csk-"]),
    row("fireworks", Alphanumeric, 20, Trust::Random, &["fw_"]),
    row("together", Url, 32, Trust::Prefix, &["tgp_v1_"]),
    row("pinecone", Word, 40, Trust::Random, &["pcsk_"]),
    row("voyage", Url, 40, Trust::Random, &["pa-"]),
    row("jina", Url, 40, Trust::Random, &["jina_"]),
    row("langsmith", Word, 40, Trust::Word, &["lsv2_"]),
    row("langsmith", Hex, 32, Trust::Word, &["ls__"]),
    row("wandb", Word, 40, Trust::Prefix, &["wandb_v1_"]),
    row("e2b", Hex, 32, Trust::Word, &["e2b_"]),
    row("firecrawl", Hex, 32, Trust::Word, &["fc-"]),
    row("runpod", Alphanumeric, 30, Trust::Random, &["rpa_"]),
    row("modal", Alphanumeric, 20, Trust::Random, &["ak-", "as-"]),
    row("elevenlabs", Hex, 40, Trust::Word, &["sk_"]),
    row("apify", Alphanumeric, 30, Trust::Prefix, &["apify_api_"]),
    row("browserbase", Url, 20, Trust::Prefix, &["bb_live_"]),
    row("llamaindex", Url, 40, Trust::Random, &["llx-"]),
    row("alchemy", Alphanumeric, 28, Trust::Random, &["alcht_"]),
    row("anyscale", Alphanumeric, 20, Trust::Random, &["esecret_"]),
    row("scrapfly", Alphanumeric, 30, Trust::Word, &["scp-live-", "scp-test-"]),
    row("dify", Alphanumeric, 22, Trust::Random, &["app-"]),
    row("slack", Dotted, 5, Trust::Prefix, &["xoxe.xoxb-", "xoxe.xoxp-"]),
    row("slack", Url, 10, Trust::Prefix, &[
        "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxc-", "xoxd-", "xoxe-", "xoxo-",
    ]),
    row("slack", Base64, 12, Trust::Prefix, &["xapp-", "xwfp-"]),
    row("slack", Path, 20, Trust::Prefix, &[
        "hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/",
    ]),
    row("discord", Path, 30, Trust::Prefix, &[
        "discord.com/api/webhooks/", "discordapp.com/api/webhooks/",
    ]),
    row("teams", Path, 60, Trust::Prefix, &[
        ".webhook.office.com/webhookb2/", "outlook.office.com/webhook/", "outlook.office365.com/webhook/",
    ]),
    row("zapier", Path, 10, Trust::Prefix, &["hooks.zapier.com/hooks/catch/"]),
    row("sendgrid", Wide, 32, Trust::Word, &["SG."]),
    row("brevo", Url, 60, Trust::Prefix, &["xkeysib-", "xsmtpsib-"]),
    row("mailgun", Alphanumeric, 32, Trust::Word, &["pubkey-"]),
    row("mailgun", Alphanumeric, 32, Trust::Random, &["key-"]),
    row("resend", Word, 28, Trust::Random, &["re_"]),
    row("twitch", Alphanumeric, 28, Trust::Random, &["oauth:"]),
    row("twitter", Percent, 40, Trust::Random, &["AAAAAAAAAAAAAAAAAAAAA"]),
    row("facebook", Alphanumeric, 90, Trust::Word, &["EAA"]),
    row("postman", Url, 40, Trust::Word, &["PMAK-"]),
    row("postman", Upper, 24, Trust::Random, &["PMAT-"]),
    row("stripe", Base64, 10, Trust::Prefix, &[
        "sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_",
    ]),
    row("stripe", Base64, 20, Trust::Prefix, &["whsec_"]),
    row("square", Url, 20, Trust::Word, &["sq0atp-", "sq0idp-", "sq0idb-"]),
    row("square", Url, 30, Trust::Word, &["sq0csp-"]),
    row("square", Base64, 22, Trust::Random, &["EAAA"]),
    row("shopify", Alphanumeric, 24, Trust::Prefix, &[
        "shpat_", "shpca_", "shppa_", "shpss_", "shpua_", "shptka_",
    ]),
    row("shopify", Alphanumeric, 24, Trust::Word, &["shpit_"]),
    row("woocommerce", Hex, 40, Trust::Word, &["ck_", "cs_"]),
    row("flutterwave", Url, 12, Trust::Prefix, &[
        "FLWSECK_TEST-", "FLWSECK-", "FLWPUBK_TEST-", "FLWPUBK-",
    ]),
    row("plaid", Url, 36, Trust::Prefix, &[
        "access-sandbox-", "access-development-", "access-production-",
    ]),
    row("razorpay", Alphanumeric, 14, Trust::Random, &["rzp_live_", "rzp_test_"]),
    row("ramp", Alphanumeric, 30, Trust::Word, &["ramp_sec_", "ramp_id_"]),
    row("polar", Url, 36, Trust::Random, &["polar_"]),
    row("brex", Alphanumeric, 36, Trust::Random, &["bxt_"]),
    row("paypal", Url, 80, Trust::Word, &["A21AA"]),
    row("braintree", Crypt, 30, Trust::Prefix, &[
        "access_token$production$", "access_token$sandbox$",
    ]),
    row("paddle", Word, 36, Trust::Prefix, &["pdl_live_apikey_", "pdl_sdbx_apikey_"]),
    row("adyen", Wide, 80, Trust::Random, &["AQE"]),
    row("lob", Alphanumeric, 30, Trust::Word, &["live_pub_", "live_"]),
    row("live-key", Alphanumeric, 24, Trust::Random, &["live_"]),
    row("gocardless", Base64, 36, Trust::Random, &["live_", "sandbox_"]),
    row("shippo", Alphanumeric, 36, Trust::Prefix, &["shippo_live_", "shippo_test_"]),
    row("easypost", Alphanumeric, 50, Trust::Word, &["EZAK", "EZTK"]),
    row("duffel", Base64, 30, Trust::Prefix, &["duffel_test_", "duffel_live_"]),
    row("onfido", Dotted, 18, Trust::Word, &[
        "api_live.", "api_sandbox.", "api_live_us.", "api_live_ca.",
    ]),
    row("npm", Alphanumeric, 30, Trust::Word, &["npm_"]),
    row("pypi", Url, 50, Trust::Prefix, &["pypi-Ag"]),
    row("crates-io", Alphanumeric, 32, Trust::Random, &["cio"]),
    row("rubygems", Alphanumeric, 40, Trust::Word, &["rubygems_"]),
    row("nuget", Alphanumeric, 43, Trust::Random, &["oy2"]),
    row("mongodb", Url, 24, Trust::Prefix, &["mdb_sa_sk_", "mdb_sa_id_"]),
    row("flexport", Url, 36, Trust::Random, &["shltm_"]),
    row("portainer", Base64, 36, Trust::Random, &["ptr_"]),
    row("besttime", Hex, 32, Trust::Word, &["pri_"]),
    row("clojars", Alphanumeric, 40, Trust::Prefix, &["CLOJARS_"]),
    row("artifactory", Alphanumeric, 40, Trust::Word, &["AKCp"]),
    row("artifactory", Alphanumeric, 10, Trust::Random, &["AKC"]),
    row("artifactory", Alphanumeric, 50, Trust::Word, &["cmVmd"]),
    row("linear", Alphanumeric, 24, Trust::Prefix, &["lin_api_", "lin_oauth_"]),
    row("notion", Alphanumeric, 30, Trust::Word, &["ntn_"]),
    row("notion", Alphanumeric, 40, Trust::Random, &["secret_"]),
    row("airtable", Dotted, 70, Trust::Random, &["pat"]),
    row("hubspot", Url, 36, Trust::Prefix, &["pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"]),
    row("figma", Url, 30, Trust::Word, &["figd_", "figdr_", "figor_", "figu_", "figoh_", "figp_", "figo_"]),
    row("outline", Alphanumeric, 30, Trust::Word, &["ol_api_"]),
    row("linkedin", Wide, 20, Trust::Random, &["WPL_AP"]),
    row("typeform", Wide, 40, Trust::Word, &["tfp_"]),
    row("contentful", Url, 40, Trust::Word, &["CFPAT-"]),
    row("readme", Alphanumeric, 60, Trust::Word, &["rdme_"]),
    row("clickup", Word, 30, Trust::Random, &["pk_"]),
    row("dropbox", Dotted, 100, Trust::Word, &["sl."]),
    row("frameio", Base64, 50, Trust::Prefix, &["fio-u-"]),
    row("mapbox", Dotted, 60, Trust::Prefix, &["pk.eyJ", "sk.eyJ", "tk.eyJ"]),
    row("launchdarkly", Url, 36, Trust::Random, &["sdk-", "mob-", "api-"]),
    row("adobe", Url, 28, Trust::Word, &["p8e-"]),
    row("lichess", Alphanumeric, 20, Trust::Random, &["lip_"]),
    row("intra42", Alphanumeric, 60, Trust::Prefix, &[
        "s-s4t2ud-", "s-s4t2af-", "u-s4t2ud-", "u-s4t2af-",
    ]),
    row("settlemint", Alphanumeric, 14, Trust::Word, &["sm_aat_", "sm_pat_", "sm_sat_"]),
    row("authress", Wide, 40, Trust::Random, &["authress_", "scauth_", "sc_", "ext_"]),
    row("samsara", Alphanumeric, 28, Trust::Word, &["samsara_api_"]),
    row("persona", Url, 20, Trust::Word, &["persona_sandbox_", "persona_production_"]),
    row("zuplo", Word, 40, Trust::Word, &["zpka_"]),
    row("cal", Alphanumeric, 30, Trust::Word, &["cal_live_"]),
    row("posthog", Url, 40, Trust::Word, &["phx_", "phs_", "phc_"]),
    row("sentry", Base64, 40, Trust::Word, &["sntrys_"]),
    row("sentry", Alphanumeric, 40, Trust::Word, &["sntryu_", "sntrya_", "sntryi_"]),
    row("grafana", Word, 30, Trust::Word, &["glsa_"]),
    row("grafana", Base64, 32, Trust::Word, &["glc_"]),
    row("grafana", Base64, 40, Trust::Word, &["eyJrIjoi"]),
    row("honeycomb", Alphanumeric, 28, Trust::Word, &["hcaik_", "hcxik_", "hcamk_"]),
    row("axiom", Url, 36, Trust::Word, &["xaat-", "xapt-"]),
    row("pixie", Url, 36, Trust::Word, &["px-api-", "px-dep-"]),
    row("pganalyze", Alphanumeric, 24, Trust::Random, &["pgar_"]),
    row("spectral", Hex, 32, Trust::Word, &["spu-"]),
    row("trufflehog", Alphanumeric, 14, Trust::Word, &["thog-key-"]),
    row("adafruit", Alphanumeric, 28, Trust::Word, &["aio_"]),
    row("pubnub", Url, 36, Trust::Random, &["pub-c-", "sub-c-", "sec-c-"]),
    row("onesignal", Word, 40, Trust::Word, &["os_v2_"]),
    row("pagerduty", Alphanumeric, 20, Trust::Random, &["PDU-"]),
    row("intercom", Base64, 50, Trust::Random, &["dG9rO"]),
    row("mandrill", Url, 22, Trust::Random, &["md-"]),
    row("packagist", Word, 40, Trust::Random, &["packagist_"]),
    row("newrelic", Url, 19, Trust::Word, &[
        "NRAK-", "NRII-", "NRJS-", "NRRA-", "NRAA-", "NRSP-", "NRIQ-",
    ]),
    row("newrelic", Alphanumeric, 19, Trust::Word, &["NRBR-"]),
    row("circleci", Word, 40, Trust::Word, &["CCIPAT_", "CCIPRJ_"]),
    row("buildkite", Alphanumeric, 36, Trust::Random, &["bkua_"]),
    row("sonar", Alphanumeric, 36, Trust::Word, &["squ_", "sqp_", "sqa_"]),
    row("snyk", Dotted, 30, Trust::Word, &["snyk_uat.", "snyk_sat."]),
    row("ory", Dotted, 30, Trust::Random, &["ory_"]),
    row("xata", Alphanumeric, 30, Trust::Random, &["xau_"]),
    row("dnsimple", Word, 30, Trust::Random, &["dnsimple_"]),
    row("porkbun", Hex, 60, Trust::Random, &["pk1_", "sk1_"]),
    row("trigger-dev", Alphanumeric, 20, Trust::Random, &[
        "tr_prod_", "tr_dev_", "tr_stg_", "tr_pat_",
    ]),
    row("stytch", Base64, 30, Trust::Random, &["secret-live-", "secret-test-"]),
    row("statsig", Alphanumeric, 36, Trust::Random, &["secret-"]),
    row("unkey", Alphanumeric, 20, Trust::Random, &["unkey_"]),
    row("devcycle", Url, 14, Trust::Random, &["dvc_server_", "dvc_client_", "dvc_mobile_"]),
    row("dbt", Url, 30, Trust::Random, &["dbtc_", "dbtu_", "dbts_"]),
    row("hex", Alphanumeric, 40, Trust::Random, &["hxtp_", "hxtw_"]),
    row("retool", Word, 24, Trust::Random, &["retool_"]),
    row("n8n", Alphanumeric, 30, Trust::Random, &["n8n_api_"]),
    row("plane", Alphanumeric, 30, Trust::Random, &["plane_api_"]),
    row("codesandbox", Word, 30, Trust::Random, &["csb_"]),
    row("gitpod", Dotted, 30, Trust::Random, &["gitpod_pat_"]),
    row("valtown", Alphanumeric, 24, Trust::Random, &["vtwn_"]),
    row("jsr", Alphanumeric, 30, Trust::Random, &["jsrp_", "jsrd_"]),
    row("socket", Word, 30, Trust::Random, &["sktsec_"]),
    row("vanta", Alphanumeric, 30, Trust::Random, &["vct_", "vcs_"]),
    row("mem0", Alphanumeric, 36, Trust::Random, &["m0-"]),
    row("context7", Url, 30, Trust::Random, &["ctx7sk-"]),
    row("cursor", Alphanumeric, 40, Trust::Random, &["crsr_"]),
    row("daytona", Alphanumeric, 40, Trust::Random, &["dtn_"]),
    row("browser-use", Url, 40, Trust::Random, &["bu_"]),
    row("steel", Alphanumeric, 40, Trust::Random, &["ste-"]),
    row("hashicorp", Dotted, 60, Trust::Random, &["hcp."]),
    row("nomic", Url, 40, Trust::Random, &["nk-"]),
    row("metabase", Base64, 36, Trust::Random, &["mb_"]),
    row("salesforce", Dotted, 60, Trust::Random, &["3MVG", "5Aep", "5AEP"]),
    row("salesforce", Session, 60, Trust::Random, &["00D"]),
    row("age", Upper, 30, Trust::Prefix, &["AGE-SECRET-KEY-PQ-1", "AGE-SECRET-KEY-1"]),
    row("nats", Upper, 54, Trust::Word, &["SUA", "SAA"]),
    row("bip32", Alphanumeric, 100, Trust::Word, &["xprv9", "yprv", "zprv", "tprv"]),
    row("paseto", Dotted, 60, Trust::Word, &[
        "v1.local.", "v1.public.", "v2.local.", "v2.public.", "v3.local.", "v3.public.",
        "v4.local.", "v4.public.",
    ]),
    row("jwt", Base64, 60, Trust::Word, &["ZXlK"]),
    row("ntlm", Base64, 60, Trust::Word, &["TlRMTVNTUAAD"]),
    row("wundergraph", Hex, 32, Trust::Word, &["cosmo_"]),
    row("private-key", Base64, 100, Trust::Word, &["MHcCAQEEI", "MIGkAgEBBD", "MIGHAgEAMBMGByqGSM49AgEG"]),
    row("private-key", Base64, 40, Trust::Word, &["MC4CAQAwBQYDK2VwBCIEI", "MC4CAQAwBQYDK2VuBCIEI"]),
    row("softlayer", Alphanumeric, 50, Trust::Prefix, &[
        "api.softlayer.com/soap/v3/", "api.softlayer.com/soap/v3.1/",
    ]),
    row("secret-token", Wide, 8, Trust::Word, &["secret-token:"]),
    row("riot", Url, 36, Trust::Word, &["RGAPI-"]),
    row("pagerduty", Word, 24, Trust::Word, &["pdus+_"]),
    row("pterodactyl", Alphanumeric, 36, Trust::Word, &["ptla_", "ptlc_"]),
    row("zenml", Wide, 40, Trust::Word, &["ZENPROKEY_", "ZENKEY_"]),
    row("wakatime", Url, 36, Trust::Word, &["waka_"]),
    row("aikido", Word, 24, Trust::Word, &["AIK_SECRET_", "AIK_CI_", "AIK_CLIENT_"]),
    row("fauna", Url, 32, Trust::Random, &["fnAE", "fnAD"]),
    row("mailersend", Alphanumeric, 48, Trust::Word, &["mlsn."]),
    row("kaggle", Alphanumeric, 28, Trust::Word, &["KGAT_"]),
    row("openvsx", Url, 36, Trust::Word, &["ovsxat_", "ovsxp_"]),
    row("roboflow", Alphanumeric, 20, Trust::Random, &["rf_"]),
    row("aiven", Url, 16, Trust::Random, &["AVNS_"]),
    row("jumpcloud", Alphanumeric, 32, Trust::Random, &["jca_"]),
    row("brave", Url, 27, Trust::Random, &["BSA"]),
    row("nylas", Alphanumeric, 40, Trust::Word, &["nyk_v0_"]),
    row("voiceflow", Dotted, 30, Trust::Word, &["VF.DM."]),
    row("scaleway", Upper, 17, Trust::Random, &["SCW"]),
    row("crunchy", Alphanumeric, 24, Trust::Random, &["cbkey_"]),
    row("langfuse", Url, 36, Trust::Word, &["pk-lf-"]),
    row("convertkit", Alphanumeric, 20, Trust::Random, &["kit_"]),
    row("builder", Hex, 32, Trust::Word, &["bpk-"]),
    row("redocly", Word, 30, Trust::Random, &["orgsk_"]),
    row("api-key", Alphanumeric, 24, Trust::Random, &["ak_", "key_"]),
    row("zillow", Url, 12, Trust::Random, &["X1-ZWz"]),
    row("webhook", Path, 36, Trust::Prefix, &["ifttt.com/trigger/"]),
    row("infura", Alphanumeric, 32, Trust::Prefix, &["infura.io/v3/", "infura.io/ws/v3/"]),
    row("alchemy", Url, 20, Trust::Prefix, &[".g.alchemy.com/v2/", ".alchemyapi.io/v2/"]),
    row("healthchecks", Url, 36, Trust::Prefix, &["hc-ping.com/"]),
    row("quicknode", Alphanumeric, 36, Trust::Prefix, &["quiknode.pro/"]),
    row("api-key", Word, 24, Trust::Random, &["apikey_"]),
    row("api-key", Url, 24, Trust::Random, &["apikey-"]),
    row("access-token", Alphanumeric, 24, Trust::Random, &["pat_", "tok_"]),
    row("access-token", Url, 32, Trust::Random, &["pat-"]),
    row("secret-key", Alphanumeric, 24, Trust::Random, &["priv_", "pw_", "ek_"]),
    row("api-key", Alphanumeric, 28, Trust::Random, &["api_", "syn_"]),
    row("secret-key", Url, 28, Trust::Random, &["sk_"]),
    row("api-key", Url, 28, Trust::Random, &["pk_"]),
    row("secret-key", Dotted, 40, Trust::Random, &["SK."]),
    row("api-key", Alphanumeric, 30, Trust::Random, &["dapp_", "dpt_", "crx_", "sbx_"]),
    row("checkmk", Alphanumeric, 24, Trust::Random, &["cmk_"]),
    row("linear", Alphanumeric, 24, Trust::Word, &["lin_wh_"]),
    row("terraform", Url, 50, Trust::Word, &["atlasv1."]),
    row("buildkite", Url, 24, Trust::Random, &["bkct_", "bkpt_", "bkaj_"]),
    row("github", Alphanumeric, 30, Trust::Random, &["ghsr_"]),
    row("zerion", Alphanumeric, 24, Trust::Word, &["zk_prod_"]),
    row("keygen", Alphanumeric, 60, Trust::Word, &["admi-"]),
    row("sumup", Alphanumeric, 24, Trust::Word, &["sup_sk_"]),
    row("klarna", Wide, 30, Trust::Word, &["klarna_live_api_", "klarna_test_api_"]),
    row("blynk", Url, 24, Trust::Word, &["oa2-client-id_"]),
    row("fernet", Url, 80, Trust::Word, &["gAAAAAB"]),
    row("amazon", Alphanumeric, 60, Trust::Prefix, &["amzn1.oa2-cs.v1."]),
    row("square", Url, 50, Trust::Word, &["EAAAE"]),
    row("chutes", Dotted, 30, Trust::Random, &["cpk_"]),
    row("api-key", Alphanumeric, 32, Trust::Random, &["ms-"]),
    row("llama", Alphanumeric, 60, Trust::Random, &["LA-"]),
    row("ubidots", Alphanumeric, 28, Trust::Word, &["BBFF-", "BBUS-"]),
    row("ship24", Alphanumeric, 24, Trust::Random, &["apik_"]),
    row("nightfall", Alphanumeric, 30, Trust::Random, &["NF-"]),
    row("fullstory", Base64, 60, Trust::Random, &["na1."]),
    row("friendli", Alphanumeric, 40, Trust::Random, &["flp_"]),
    row("mergify", Url, 30, Trust::Random, &["mka_"]),
    row("stackhawk", Dotted, 36, Trust::Random, &["hawk."]),
    row("telnyx", Word, 50, Trust::Word, &["KEY0"]),
    row("coze", Alphanumeric, 40, Trust::Random, &["czu_", "czs_"]),
    row("cfx", Word, 20, Trust::Random, &["cfxk_"]),
    row("salad", Word, 14, Trust::Random, &["salad_cloud_"]),
    row("instagram", Alphanumeric, 100, Trust::Word, &["IGQ", "IGAA"]),
    row("percy", Alphanumeric, 32, Trust::Random, &["web_"]),
    row("discord", Url, 80, Trust::Word, &["mfa."]),
    row("recaptcha", Url, 37, Trust::Random, &["6Le", "6Ld", "6Lf", "6Lc"]),
    row("mercadopago", Url, 40, Trust::Random, &["APP_USR-"]),
    row("voiceflow", Dotted, 36, Trust::Random, &["VF."]),
    row("mapbox", Dotted, 60, Trust::Random, &["pk.", "sk.", "tk."]),
    row("locationiq", Alphanumeric, 32, Trust::Random, &["pk."]),
    row("thingsboard", Alphanumeric, 20, Trust::Prefix, &["thingsboard.cloud/api/v1/"]),
    row("gemini", Alphanumeric, 20, Trust::Random, &["master-", "account-"]),
    row("bannerbear", Hex, 30, Trust::Word, &["bb_pr_", "bb_ma_"]),
    row("password-hash", Crypt, 40, Trust::Prefix, &[
        "$2a$", "$2b$", "$2y$", "$2x$", "$8$", "$argon2", "$6$", "$5$", "$y$", "$gy$", "$7$", "$scrypt$", "$9$", "$pbkdf2",
    ]),
    row("kerberos", Ticket, 40, Trust::Prefix, &["$krb5asrep$", "$krb5tgs$", "$krb5pa$"]),
    row("password-hash", Crypt, 24, Trust::Prefix, &["$apr1$", "$1$"]),
    row("zoho", Dotted, 60, Trust::Random, &["1000."]),
    row("fullstory", Base64, 60, Trust::Random, &["na1.", "eu1."]),
    row("fleetbase", Alphanumeric, 16, Trust::Prefix, &["flb_live_", "flb_test_"]),
    row("password-hash", Crypt, 30, Trust::Word, &["pbkdf2_sha256$"]),
    row("password-hash", Crypt, 30, Trust::Prefix, &["$P$", "$H$"]),
    row("password-hash", Base64, 28, Trust::Prefix, &["{SSHA}", "{SSHA512}"]),
    row("facebook", Alphanumeric, 1, Trust::Prefix, &["EAACEdEose0cBA"]),
    row("dynatrace", Dotted, 60, Trust::Word, &["dt0"]),
    row("datastax", Pair, 60, Trust::Word, &["AstraCS:"]),
    row("posthog", Word, 40, Trust::Word, &["phc_"]),
    row("square", Url, 24, Trust::Random, &["sq0"]),
    row("devin", Base64, 40, Trust::Random, &["apk_", "cog_"]),
    row("tinybird", Dotted, 60, Trust::Word, &["p.eyJ"]),
    row("exoscale", Hex, 24, Trust::Word, &["EXO"]),
    row("deepsource", Alphanumeric, 40, Trust::Random, &["dsp_"]),
    row("macaroon", Base64, 80, Trust::Word, &["MDAx"]),
    row("nostr", Alphanumeric, 58, Trust::Word, &["nsec1"]),
    row("tezos", Alphanumeric, 50, Trust::Random, &["edsk"]),
    row("cardano", Alphanumeric, 50, Trust::Word, &["ed25519_sk1", "ed25519e_sk1"]),
    row("near", Alphanumeric, 80, Trust::Word, &["ed25519:"]),
    row("sui", Alphanumeric, 50, Trust::Word, &["suiprivkey1"]),
    row("finage", Upper, 32, Trust::Random, &["API_KEY"]),
    row("saucelabs", Url, 40, Trust::Random, &["oauth-"]),
    row("censys", Url, 20, Trust::Random, &["censys_"]),
    row("kubernetes", Url, 60, Trust::Word, &["kubeconfig-u-"]),
    row("rancher", Pair, 50, Trust::Random, &["token-"]),
    row("webhook", Path, 30, Trust::Prefix, &[
        "chat.googleapis.com/v1/spaces/", "webhooks.mongodb-realm.com/", "oapi.dingtalk.com/robot/",
    ]),
    row("pagertree", Alphanumeric, 20, Trust::Word, &["hooks.pagertree.com/"]),
    row("hyperbrowser", Alphanumeric, 24, Trust::Random, &["hb_"]),
    row("luma", Url, 36, Trust::Word, &["luma-"]),
    row("coderabbit", Alphanumeric, 40, Trust::Random, &["cr-"]),
    row("checkout", Url, 36, Trust::Random, &["sk_sbox_", "pk_sbox_"]),
    row("teamcity", Dotted, 60, Trust::Word, &["eyJ0eXAiOiAiVENWMiJ9."]),
    row("gitea", Hex, 40, Trust::Random, &["gta_", "gto_", "gtr_"]),
];

/// The items of rows, each of which is what several words have in common and these words.
macro_rules! one_by_one {
    ($rows:ident, |$common:ident, $word:ident| $item:expr) => {{
        const COUNT: usize = {
            let (mut row, mut count) = (0, 0);
            while row < $rows.len() {
                count += $rows[row].1.len();
                row += 1;
            }
            count
        };
        let ($common, $word) = ($rows[0].0, "");
        let mut items = [$item; COUNT];
        let (mut row, mut at, mut index) = (0, 0, 0);
        while row < $rows.len() {
            while at < $rows[row].1.len() {
                let ($common, $word) = ($rows[row].0, $rows[row].1[at]);
                items[index] = $item;
                (at, index) = (at + 1, index + 1);
            }
            (row, at) = (row + 1, 0);
        }
        items
    }};
}
pub(super) use one_by_one;

/// The rows with one prefix each.
pub(super) const FORMATS: &[SecretFormat] =
    &one_by_one!(ROWS, |common, prefix| SecretFormat { prefix, ..common });

/// A format that is known by its middle or its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Infix {
    /// Compared with case; `0` stands for any digit.
    pub(super) literal: &'static str,
    pub(super) kind: &'static str,
    pub(super) before: Run,
    pub(super) after: Run,
}

/// What several literals have in common, and these.
type InfixRow = (Infix, &'static [&'static str]);
type Run = (Alphabet, usize, usize);

const fn infix(
    kind: &'static str,
    before: Run,
    after: Run,
    literals: &'static [&'static str],
) -> InfixRow {
    (
        Infix {
            literal: "",
            kind,
            before,
            after,
        },
        literals,
    )
}

/// The table of those: what stands before and behind the literals, at least and at most so long.
#[rustfmt::skip]
const INFIX_ROWS: &[InfixRow] = &[
    infix("telegram", (Digit, 8, 12), (Url, 30, 38), &[":AA"]),
    infix("azure", (Tilde, 3, 3), (Tilde, 31, 34), &["0Q~"]),
    infix("facebook", (Digit, 11, 15), (Url, 27, 42), &["00|", "00%"]),
    infix("tableau", (Base64, 22, 22), (Alphanumeric, 32, 32), &["==:"]),
    infix("terraform", (Alphanumeric, 14, 14), (Wide, 50, 80), &[".atlasv1."]),
    infix("openai", (Url, 20, 200), (Url, 20, 200), &["T3BlbkFJ"]),
    infix("convex", (Url, 5, 60), (Base64, 24, 400), &["|eyJ2"]),
    infix("maxmind", (Word, 36, 36), (Alphanumeric, 0, 0), &["_mmk"]),
    infix("lob", (Alphanumeric, 1, 1), (Hex, 30, 48), &["est_pub_"]),
    infix("lob", (Alphanumeric, 1, 1), (Alphanumeric, 30, 48), &["est_"]),
    infix("rootly", (Alphanumeric, 2, 2), (Hex, 48, 64), &["otly_"]),
    infix("live-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120), &[
        "_live_", "_prod_", "-live-", "-prod-",
    ]),
    infix("live-key", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120), &["_test_"]),
    infix("secret-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120), &[
        "_secret_", "_sk_", "-sk-",
    ]),
    infix("api-key", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120), &[
        "_api_", "_key_", "-api-", "-key-",
    ]),
    infix("access-token", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120), &["_pat_", "-pat-"]),
    infix("access-token", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120), &[
        "_token_", "_oauth_", "_access_",
    ]),
    infix("webhook", (Alphanumeric, 0, 12), (Path, 20, 200), &["hook/", "hooks/"]),
    // RSA keys of 512 to 4,096 bits, and with the name of their algorithm.
    infix("private-key", (Base64, 5, 6), (Base64, 40, KEY_LEN_MAX), &[
        "IBAAJB", "IBAAKBg", "IBAAKCA", "IBADANBgkqhkiG9w0BAQEFA",
    ]),
    // The path of a link.
    infix("access-token", (Alphanumeric, 0, 12), (Url, 24, 200), &["token/", "tokens/"]),
    infix("api-key", (Word, 3, 12), (Url, 24, 200), &["key/"]),
    infix("secret-key", (Alphanumeric, 0, 12), (Url, 24, 200), &["secret/"]),
    infix("dropbox", (Alphanumeric, 11, 11), (Url, 43, 43), &["AAAAAAAAAA"]),
    infix("newrelic", (Alphanumeric, 36, 36), (Alphanumeric, 0, 0), &["NRAL"]),
    infix("newrelic", (Alphanumeric, 42, 42), (Alphanumeric, 0, 0), &["-NRMA"]),
    infix("salesforce", (Alphanumeric, 15, 18), (Dotted, 60, 200), &["!AQ", "!AR"]),
    infix("jwt", (Url, 18, 400), (Dotted, 18, 4000), &[".ey"]),
    // `google.crypto.tink`, which the keys of a key set begin with.
    infix("tink", (Base64, 20, 400), (Base64, 24, KEY_LEN_MAX), &[
        "Z29vZ2xlLmNyeXB0by50aW5r", "dvb2dsZS5jcnlwdG8udGlua", "nb29nbGUuY3J5cHRvLnRpbm",
    ]),
    infix("webex", (Alphanumeric, 60, 70), (Url, 36, 36), &["_PF84_", "_P0A1_"]),
    infix("airtable", (Alphanumeric, 8, 24), (Dotted, 60, 400), &[".v1."]),
    infix("rapidapi", (Alphanumeric, 30, 38), (Alphanumeric, 12, 16), &["jsn"]),
    infix("mailchimp", (Alphanumeric, 32, 32), (Digit, 1, 2), &["-us"]),
    infix("firebase", (Url, 9, 30), (Url, 100, 300), &[":APA91b"]),
    infix("azure", (Base64, 40, 60), (Base64, 20, 40), &["JQQJ9"]),
    infix("azure", (Alphanumeric, 70, 80), (Alphanumeric, 4, 8), &["AZDO"]),
    infix("azure", (Base64, 30, 60), (Base64, 4, 20), &[
        "AzFu", "AzSe", "AzCa", "AIoT", "+ACR", "+ARm", "+AEh", "+ASb", "AZEG",
    ]),
    infix("azure", (Base64, 70, 90), (Base64, 4, 16), &["ACDb", "+ASt", "+ABa", "+AMC", "APIM"]),
];

/// The rows with one literal each.
pub(super) const INFIXES: &[Infix] =
    &one_by_one!(INFIX_ROWS, |common, literal| Infix { literal, ..common });

pub(super) const KEY_LEN_MAX: usize = 8000;
/// Whether a format is of this kind.
pub(super) fn has_kind(kind: &[u8]) -> bool {
    FORMATS.iter().any(|format| format.kind.as_bytes() == kind)
        || INFIXES.iter().any(|infix| infix.kind.as_bytes() == kind)
}

pub(super) fn is_in(byte: u8, alphabet: Alphabet) -> bool {
    match alphabet {
        Alphanumeric => byte.is_ascii_alphanumeric(),
        Word => byte.is_ascii_alphanumeric() || byte == b'_',
        Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
        Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
        Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-'),
        Path => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/' | b'@'),
        Hex => byte.is_ascii_hexdigit(),
        Digit => byte.is_ascii_digit(),
        Tilde => byte.is_ascii_alphanumeric() || b"_.~-".contains(&byte),
        Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        UpperDash => byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-',
        Percent => byte.is_ascii_alphanumeric() || byte == b'%',
        Wide => byte.is_ascii_alphanumeric() || b"_-.+/=".contains(&byte),
        Pair => byte.is_ascii_alphanumeric() || b"_-.+/=:".contains(&byte),
        Session => byte.is_ascii_alphanumeric() || b"_-.!".contains(&byte),
        Ticket => byte.is_ascii_alphanumeric() || b"_-./$@*:=".contains(&byte),
        Crypt => byte.is_ascii_alphanumeric() || b"./$=,+-".contains(&byte),
    }
}

const COLOUR_LEN_MAX: usize = 24;

/// Whether a word starts at `at`, also behind an escape such as `\n` or `%3D` and behind a colour
/// sequence of a terminal.
pub(super) fn starts_word(text: &[u8], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).map(|i| text[i]);
    let Some(last) = before(1) else { return true };
    let is_escape = before(2) == Some(b'\\') && matches!(last, b'n' | b'r' | b't');
    let is_percent = before(3) == Some(b'%') && last.is_ascii_hexdigit();
    !last.is_ascii_alphanumeric() || is_escape || is_percent || colour_len(text, at) > 0
}

/// Length of the colour sequence that ends at `at`, from its `[`: `[1;32m`, `[0K`. The escape before
/// the bracket may be written in many ways, and logs often lose it.
pub(super) fn colour_len(text: &[u8], at: usize) -> usize {
    if !text[..at].last().is_some_and(|b| matches!(b, b'm' | b'K')) {
        return 0;
    }
    let in_numbers = |b: &&u8| b.is_ascii_digit() || matches!(b, b';' | b':');
    let numbers = text[..at - 1]
        .iter()
        .rev()
        .take(COLOUR_LEN_MAX)
        .take_while(in_numbers)
        .count();
    let is_sequence = text[..at - 1 - numbers].last() == Some(&b'[');
    if is_sequence { numbers + 2 } else { 0 }
}

/// What stands before the colour sequence at the end of `text`, if there is one.
pub(super) fn without_colour(text: &[u8]) -> &[u8] {
    const ESCAPES: &[&[u8]] = &[
        b"\x1b", b"\\u001b", b"\\u001B", b"\\x1b", b"\\x1B", b"\\033", b"\\e",
    ];
    let len = colour_len(text, text.len());
    let before = &text[..text.len() - len];
    let escape = ESCAPES
        .iter()
        .find_map(|escape| before.strip_suffix(*escape));
    if len > 0 {
        escape.unwrap_or(before)
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_starts_behind_escapes() {
        assert!(starts_word(b"hf_", 0));
        assert!(starts_word(br"\nhf_", 2));
        assert!(starts_word(b"%3Dhf_", 3));
        assert!(!starts_word(b"nhf_", 1));
        assert!(starts_word(b"\x1b[1;32mhf_", 7));
        assert!(starts_word(br"\u001b[38;2;1;2;3mhf_", 18));
        assert!(!starts_word(b"32mhf_", 3));
    }
}
