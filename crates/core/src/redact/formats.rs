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
    /// Hexadecimal digits and `-`.
    Uuid,
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

use Alphabet::{
    Alphanumeric, Base64, Crypt, Digit, Dotted, Hex, Path, Percent, Tilde, Upper, UpperDash, Url,
    Uuid, Wide, Word,
};

/// The table. Minimal lengths are below the published ones where tokens may be torn.
#[rustfmt::skip]
pub(super) const FORMATS: &[Format] = &[
    format("github_pat_", "github", Word, 22, Trust::Prefix),
    format("ghp_", "github", Alphanumeric, 20, Trust::Prefix),
    format("gho_", "github", Alphanumeric, 20, Trust::Prefix),
    format("ghu_", "github", Alphanumeric, 20, Trust::Prefix),
    format("ghs_", "github", Dotted, 20, Trust::Prefix),
    format("ghr_", "github", Alphanumeric, 20, Trust::Prefix),
    format("glpat-", "gitlab", Dotted, 16, Trust::Prefix),
    format("glrt-", "gitlab", Dotted, 16, Trust::Word),
    format("gldt-", "gitlab", Dotted, 16, Trust::Word),
    format("glcbt-", "gitlab", Dotted, 16, Trust::Word),
    format("glptt-", "gitlab", Dotted, 16, Trust::Word),
    format("glsoat-", "gitlab", Dotted, 16, Trust::Word),
    format("gloas-", "gitlab", Dotted, 16, Trust::Word),
    format("glffct-", "gitlab", Dotted, 16, Trust::Word),
    format("glft-", "gitlab", Dotted, 16, Trust::Word),
    format("glimt-", "gitlab", Dotted, 16, Trust::Word),
    format("glwt-", "gitlab", Dotted, 16, Trust::Word),
    format("glrtr-", "gitlab", Dotted, 16, Trust::Word),
    format("glagent-", "gitlab", Url, 20, Trust::Word),
    format("GR1348941", "gitlab", Url, 18, Trust::Prefix),
    format("_gitlab_session=", "gitlab", Alphanumeric, 30, Trust::Prefix),
    format("ATATT3", "atlassian", Base64, 40, Trust::Word),
    format("ATCTT3", "atlassian", Base64, 40, Trust::Word),
    format("ATSTT3", "atlassian", Base64, 40, Trust::Word),
    format("ATBB", "atlassian", Alphanumeric, 28, Trust::Random),
    format("ATTA", "trello", Alphanumeric, 60, Trust::Word),
    format("BBDC-", "bitbucket", Base64, 40, Trust::Word),
    format("sgp_", "sourcegraph", Word, 38, Trust::Word),
    format("slk_", "sourcegraph", Hex, 40, Trust::Word),
    format("AKIA", "aws", Upper, 16, Trust::Word),
    format("ASIA", "aws", Upper, 16, Trust::Word),
    format("ABIA", "aws", Upper, 16, Trust::Word),
    format("ACCA", "aws", Upper, 16, Trust::Word),
    format("A3T", "aws", Upper, 17, Trust::Word),
    format("ABSK", "bedrock", Base64, 100, Trust::Word),
    format("bedrock-api-key-", "bedrock", Base64, 20, Trust::Prefix),
    format("FwoGZXIvYXdz", "aws-session", Base64, 80, Trust::Word),
    format("IQoJb3JpZ2lu", "aws-session", Base64, 80, Trust::Word),
    format("amzn.mws.", "amazon-mws", Url, 36, Trust::Prefix),
    format("da2-", "appsync", Alphanumeric, 26, Trust::Random),
    format("AIza", "google", Url, 30, Trust::Prefix),
    format("ya29.", "google", Url, 20, Trust::Prefix),
    format("GOCSPX-", "google", Url, 20, Trust::Prefix),
    format("1//0", "google", Url, 40, Trust::Word),
    format("4/0A", "google", Url, 40, Trust::Word),
    format("GOOG1E", "google", Upper, 36, Trust::Random),
    format("GOOG", "google", Upper, 20, Trust::Random),
    format("AQ.Ab8", "google", Url, 30, Trust::Random),
    format("LTAI", "alibaba", Alphanumeric, 16, Trust::Random),
    format("AKID", "tencent", Alphanumeric, 32, Trust::Random),
    format("AKLT", "volcengine", Url, 40, Trust::Random),
    format("JDC_", "jdcloud", Upper, 24, Trust::Random),
    format("dop_v1_", "digitalocean", Hex, 32, Trust::Prefix),
    format("doo_v1_", "digitalocean", Hex, 32, Trust::Prefix),
    format("dor_v1_", "digitalocean", Hex, 32, Trust::Prefix),
    format("AQVN", "yandex", Url, 35, Trust::Random),
    format("YCAJ", "yandex", Url, 36, Trust::Random),
    format("YCN", "yandex", Url, 36, Trust::Random),
    format("YCP", "yandex", Url, 36, Trust::Random),
    format("YCM", "yandex", Url, 36, Trust::Random),
    format("y0_", "yandex", Url, 50, Trust::Random),
    format("t1.", "yandex", Wide, 86, Trust::Random),
    format("tk-us-", "scalingo", Url, 40, Trust::Word),
    format("HRKU-", "heroku", Url, 30, Trust::Prefix),
    format("fo1_", "fly", Url, 40, Trust::Random),
    format("fm1a_", "fly", Base64, 60, Trust::Random),
    format("fm1r_", "fly", Base64, 60, Trust::Random),
    format("fm2_", "fly", Base64, 60, Trust::Random),
    format("nfp_", "netlify", Alphanumeric, 36, Trust::Prefix),
    format("nfc_", "netlify", Alphanumeric, 36, Trust::Prefix),
    format("nfo_", "netlify", Alphanumeric, 36, Trust::Prefix),
    format("nfu_", "netlify", Alphanumeric, 36, Trust::Prefix),
    format("nfb_", "netlify", Alphanumeric, 36, Trust::Prefix),
    format("vcp_", "vercel", Alphanumeric, 24, Trust::Random),
    format("vci_", "vercel", Alphanumeric, 24, Trust::Random),
    format("vca_", "vercel", Alphanumeric, 24, Trust::Random),
    format("vcr_", "vercel", Alphanumeric, 24, Trust::Random),
    format("vck_", "vercel", Alphanumeric, 24, Trust::Random),
    format("vercel_blob_rw_", "vercel", Word, 30, Trust::Prefix),
    format("rnd_", "render", Alphanumeric, 28, Trust::Random),
    format("v1.0-", "cloudflare", Url, 140, Trust::Word),
    format("cfut_", "cloudflare", Alphanumeric, 36, Trust::Random),
    format("cfat_", "cloudflare", Alphanumeric, 36, Trust::Random),
    format("cfk_", "cloudflare", Alphanumeric, 36, Trust::Random),
    format("sbp_", "supabase", Word, 36, Trust::Random),
    format("sb_secret_", "supabase", Url, 16, Trust::Word),
    format("napi_", "neon", Alphanumeric, 40, Trust::Random),
    format("CCDB1_", "cockroach", Word, 36, Trust::Word),
    format("essu_", "elastic", Base64, 40, Trust::Random),
    format("ucat_", "upcloud", Alphanumeric, 24, Trust::Random),
    format("pscale_tkn_", "planetscale", Wide, 30, Trust::Word),
    format("pscale_pw_", "planetscale", Wide, 30, Trust::Word),
    format("pscale_oauth_", "planetscale", Wide, 30, Trust::Word),
    format("dapi", "databricks", Hex, 32, Trust::Word),
    format("dose", "databricks", Hex, 32, Trust::Word),
    format("dkea", "databricks", Hex, 32, Trust::Word),
    format("4b1d", "clickhouse", Alphanumeric, 38, Trust::Random),
    format("cflt", "confluent", Base64, 50, Trust::Random),
    format("dckr_pat_", "docker", Url, 16, Trust::Prefix),
    format("dckr_oat_", "docker", Url, 16, Trust::Prefix),
    format("SWMTKN-1-", "docker-swarm", Url, 60, Trust::Prefix),
    format("K10", "k3s", Hex, 40, Trust::Word),
    format("sha256~", "openshift", Url, 40, Trust::Prefix),
    format("ddp_", "deno", Alphanumeric, 36, Trust::Random),
    format("ddw_", "deno", Alphanumeric, 36, Trust::Random),
    format("hvs.", "vault", Url, 20, Trust::Word),
    format("hvb.", "vault", Url, 20, Trust::Word),
    format("hvr.", "vault", Url, 20, Trust::Word),
    format("dp.pt.", "doppler", Dotted, 30, Trust::Word),
    format("dp.st.", "doppler", Dotted, 30, Trust::Word),
    format("dp.ct.", "doppler", Dotted, 30, Trust::Word),
    format("dp.sa.", "doppler", Dotted, 30, Trust::Word),
    format("dp.scim.", "doppler", Dotted, 30, Trust::Word),
    format("dp.audit.", "doppler", Dotted, 30, Trust::Word),
    format("ico-", "infracost", Alphanumeric, 30, Trust::Word),
    format("pul-", "pulumi", Hex, 32, Trust::Prefix),
    format("pnu_", "prefect", Alphanumeric, 32, Trust::Word),
    format("pnb_", "prefect", Alphanumeric, 32, Trust::Word),
    format("tskey-", "tailscale", Url, 20, Trust::Word),
    format("nbp_", "netbird", Alphanumeric, 32, Trust::Random),
    format("akab-", "akamai", Url, 30, Trust::Word),
    format("dnkey-", "defined-networking", Base64, 60, Trust::Prefix),
    format("pat.", "harness", Dotted, 60, Trust::Random),
    format("sat.", "harness", Dotted, 60, Trust::Random),
    format("API-", "octopus", Upper, 26, Trust::Random),
    format("A3-", "1password", UpperDash, 28, Trust::Random),
    format("ops_eyJ", "1password", Base64, 100, Trust::Prefix),
    format("endr+", "endor", Alphanumeric, 14, Trust::Random),
    format("sk-ant-", "anthropic", Url, 16, Trust::Prefix),
    format("sk-proj-", "openai", Url, 16, Trust::Prefix),
    format("sk-svcacct-", "openai", Url, 16, Trust::Prefix),
    format("sk-admin-", "openai", Url, 20, Trust::Prefix),
    format("sk-or-v1-", "openrouter", Hex, 32, Trust::Prefix),
    format("sk-", "openai", Url, 20, Trust::Random),
    format("sess-", "openai", Alphanumeric, 36, Trust::Random),
    format("hf_", "huggingface", Alphanumeric, 30, Trust::Word),
    format("api_org_", "huggingface", Alphanumeric, 30, Trust::Word),
    format("gsk_", "groq", Alphanumeric, 30, Trust::Word),
    format("xai-", "xai", Alphanumeric, 40, Trust::Word),
    format("r8_", "replicate", Alphanumeric, 30, Trust::Word),
    format("pplx-", "perplexity", Alphanumeric, 30, Trust::Word),
    format("nvapi-", "nvidia", Url, 40, Trust::Word),
    format("tvly-", "tavily", Url, 20, Trust::Random),
    format("csk-", "cerebras", Alphanumeric, 36, Trust::Random),
    format("fw_", "fireworks", Alphanumeric, 20, Trust::Random),
    format("tgp_v1_", "together", Url, 32, Trust::Prefix),
    format("pcsk_", "pinecone", Word, 40, Trust::Random),
    format("pa-", "voyage", Url, 40, Trust::Random),
    format("jina_", "jina", Url, 40, Trust::Random),
    format("lsv2_", "langsmith", Word, 40, Trust::Word),
    format("ls__", "langsmith", Hex, 32, Trust::Word),
    format("wandb_v1_", "wandb", Word, 40, Trust::Prefix),
    format("e2b_", "e2b", Hex, 32, Trust::Word),
    format("fc-", "firecrawl", Hex, 32, Trust::Word),
    format("rpa_", "runpod", Alphanumeric, 36, Trust::Random),
    format("ak-", "modal", Alphanumeric, 20, Trust::Random),
    format("as-", "modal", Alphanumeric, 20, Trust::Random),
    format("sk_", "elevenlabs", Hex, 40, Trust::Word),
    format("apify_api_", "apify", Alphanumeric, 30, Trust::Prefix),
    format("bb_live_", "browserbase", Url, 20, Trust::Prefix),
    format("llx-", "llamaindex", Url, 40, Trust::Random),
    format("alcht_", "alchemy", Alphanumeric, 28, Trust::Random),
    format("esecret_", "anyscale", Alphanumeric, 20, Trust::Random),
    format("scp-live-", "scrapfly", Hex, 30, Trust::Word),
    format("scp-test-", "scrapfly", Hex, 30, Trust::Word),
    format("app-", "dify", Alphanumeric, 22, Trust::Random),
    format("xoxe.xoxb-", "slack", Dotted, 5, Trust::Prefix),
    format("xoxe.xoxp-", "slack", Dotted, 5, Trust::Prefix),
    format("xoxb-", "slack", Url, 10, Trust::Prefix),
    format("xoxp-", "slack", Url, 10, Trust::Prefix),
    format("xoxa-", "slack", Url, 10, Trust::Prefix),
    format("xoxr-", "slack", Url, 10, Trust::Prefix),
    format("xoxs-", "slack", Url, 10, Trust::Prefix),
    format("xoxc-", "slack", Url, 10, Trust::Prefix),
    format("xoxd-", "slack", Url, 10, Trust::Prefix),
    format("xoxe-", "slack", Url, 10, Trust::Prefix),
    format("xoxo-", "slack", Url, 10, Trust::Prefix),
    format("xapp-", "slack", Url, 20, Trust::Prefix),
    format("xwfp-", "slack", Url, 20, Trust::Prefix),
    format("hooks.slack.com/services/", "slack", Path, 20, Trust::Prefix),
    format("hooks.slack.com/workflows/", "slack", Path, 20, Trust::Prefix),
    format("hooks.slack.com/triggers/", "slack", Path, 20, Trust::Prefix),
    format("discord.com/api/webhooks/", "discord", Path, 30, Trust::Prefix),
    format("discordapp.com/api/webhooks/", "discord", Path, 30, Trust::Prefix),
    format(".webhook.office.com/webhookb2/", "teams", Path, 60, Trust::Prefix),
    format("hooks.zapier.com/hooks/catch/", "zapier", Path, 10, Trust::Prefix),
    format("SG.", "sendgrid", Dotted, 40, Trust::Word),
    format("xkeysib-", "brevo", Url, 60, Trust::Prefix),
    format("xsmtpsib-", "brevo", Url, 60, Trust::Prefix),
    format("pubkey-", "mailgun", Hex, 32, Trust::Word),
    format("key-", "mailgun", Hex, 32, Trust::Word),
    format("re_", "resend", Word, 28, Trust::Random),
    format("oauth:", "twitch", Alphanumeric, 28, Trust::Random),
    format("AAAAAAAAAAAAAAAAAAAAAA", "twitter", Percent, 40, Trust::Random),
    format("EAA", "facebook", Alphanumeric, 90, Trust::Word),
    format("PMAK-", "postman", Url, 40, Trust::Word),
    format("PMAT-", "postman", Upper, 24, Trust::Random),
    format("sk_live_", "stripe", Alphanumeric, 10, Trust::Prefix),
    format("sk_test_", "stripe", Alphanumeric, 10, Trust::Prefix),
    format("sk_prod_", "stripe", Alphanumeric, 10, Trust::Prefix),
    format("rk_live_", "stripe", Alphanumeric, 10, Trust::Prefix),
    format("rk_test_", "stripe", Alphanumeric, 10, Trust::Prefix),
    format("rk_prod_", "stripe", Alphanumeric, 10, Trust::Prefix),
    format("whsec_", "stripe", Base64, 20, Trust::Prefix),
    format("sq0atp-", "square", Url, 20, Trust::Word),
    format("sq0csp-", "square", Url, 30, Trust::Word),
    format("sq0idp-", "square", Url, 20, Trust::Word),
    format("sq0idb-", "square", Url, 20, Trust::Word),
    format("EAAA", "square", Url, 22, Trust::Random),
    format("shpat_", "shopify", Hex, 24, Trust::Prefix),
    format("shpca_", "shopify", Hex, 24, Trust::Prefix),
    format("shppa_", "shopify", Hex, 24, Trust::Prefix),
    format("shpss_", "shopify", Hex, 24, Trust::Prefix),
    format("shpua_", "shopify", Hex, 24, Trust::Prefix),
    format("shptka_", "shopify", Hex, 24, Trust::Prefix),
    format("shpit_", "shopify", Hex, 24, Trust::Word),
    format("ck_", "woocommerce", Hex, 40, Trust::Word),
    format("cs_", "woocommerce", Hex, 40, Trust::Word),
    format("FLWSECK_TEST-", "flutterwave", Url, 12, Trust::Prefix),
    format("FLWSECK-", "flutterwave", Url, 12, Trust::Prefix),
    format("FLWPUBK_TEST-", "flutterwave", Url, 12, Trust::Prefix),
    format("FLWPUBK-", "flutterwave", Url, 12, Trust::Prefix),
    format("access-sandbox-", "plaid", Uuid, 36, Trust::Prefix),
    format("access-development-", "plaid", Uuid, 36, Trust::Prefix),
    format("access-production-", "plaid", Uuid, 36, Trust::Prefix),
    format("rzp_live_", "razorpay", Alphanumeric, 14, Trust::Random),
    format("rzp_test_", "razorpay", Alphanumeric, 14, Trust::Random),
    format("ramp_sec_", "ramp", Alphanumeric, 30, Trust::Word),
    format("ramp_id_", "ramp", Alphanumeric, 30, Trust::Word),
    format("polar_", "polar", Word, 36, Trust::Random),
    format("bxt_", "brex", Alphanumeric, 36, Trust::Random),
    format("A21AA", "paypal", Url, 80, Trust::Word),
    format("access_token$production$", "braintree", Wide, 30, Trust::Prefix),
    format("access_token$sandbox$", "braintree", Wide, 30, Trust::Prefix),
    format("pdl_live_apikey_", "paddle", Word, 36, Trust::Prefix),
    format("pdl_sdbx_apikey_", "paddle", Word, 36, Trust::Prefix),
    format("AQE", "adyen", Wide, 80, Trust::Random),
    format("live_pub_", "lob", Hex, 30, Trust::Word),
    format("live_", "lob", Hex, 30, Trust::Word),
    format("live_", "gocardless", Base64, 36, Trust::Random),
    format("sandbox_", "gocardless", Base64, 36, Trust::Random),
    format("live_", "mollie", Alphanumeric, 30, Trust::Random),
    format("shippo_live_", "shippo", Hex, 36, Trust::Prefix),
    format("shippo_test_", "shippo", Hex, 36, Trust::Prefix),
    format("EZAK", "easypost", Alphanumeric, 50, Trust::Word),
    format("EZTK", "easypost", Alphanumeric, 50, Trust::Word),
    format("duffel_test_", "duffel", Base64, 30, Trust::Prefix),
    format("duffel_live_", "duffel", Base64, 30, Trust::Prefix),
    format("api_live.", "onfido", Dotted, 30, Trust::Word),
    format("api_sandbox.", "onfido", Dotted, 30, Trust::Word),
    format("api_live_us.", "onfido", Dotted, 30, Trust::Word),
    format("api_live_ca.", "onfido", Dotted, 30, Trust::Word),
    format("npm_", "npm", Alphanumeric, 30, Trust::Word),
    format("pypi-Ag", "pypi", Url, 50, Trust::Prefix),
    format("cio", "crates-io", Alphanumeric, 32, Trust::Random),
    format("rubygems_", "rubygems", Hex, 40, Trust::Word),
    format("oy2", "nuget", Alphanumeric, 43, Trust::Random),
    format("mdb_sa_sk_", "mongodb", Url, 30, Trust::Prefix),
    format("shltm_", "flexport", Url, 36, Trust::Random),
    format("ptr_", "portainer", Base64, 36, Trust::Random),
    format("pri_", "besttime", Hex, 32, Trust::Word),
    format("CLOJARS_", "clojars", Alphanumeric, 40, Trust::Prefix),
    format("AKCp", "artifactory", Alphanumeric, 40, Trust::Word),
    format("AKC", "artifactory", Alphanumeric, 10, Trust::Random),
    format("cmVmd", "artifactory", Alphanumeric, 50, Trust::Word),
    format("lin_api_", "linear", Alphanumeric, 24, Trust::Prefix),
    format("lin_oauth_", "linear", Alphanumeric, 24, Trust::Prefix),
    format("ntn_", "notion", Alphanumeric, 30, Trust::Word),
    format("secret_", "notion", Alphanumeric, 40, Trust::Random),
    format("pat", "airtable", Dotted, 70, Trust::Random),
    format("pat-na1-", "hubspot", Uuid, 36, Trust::Prefix),
    format("pat-na2-", "hubspot", Uuid, 36, Trust::Prefix),
    format("pat-eu1-", "hubspot", Uuid, 36, Trust::Prefix),
    format("pat-ap1-", "hubspot", Uuid, 36, Trust::Prefix),
    format("figd_", "figma", Url, 30, Trust::Word),
    format("figdr_", "figma", Url, 30, Trust::Word),
    format("figor_", "figma", Url, 30, Trust::Word),
    format("figu_", "figma", Url, 30, Trust::Word),
    format("figoh_", "figma", Url, 30, Trust::Word),
    format("ol_api_", "outline", Alphanumeric, 30, Trust::Word),
    format("WPL_AP", "linkedin", Wide, 20, Trust::Random),
    format("tfp_", "typeform", Wide, 40, Trust::Word),
    format("CFPAT-", "contentful", Url, 40, Trust::Word),
    format("rdme_", "readme", Alphanumeric, 60, Trust::Word),
    format("pk_", "clickup", Word, 30, Trust::Random),
    format("sl.", "dropbox", Dotted, 100, Trust::Word),
    format("fio-u-", "frameio", Base64, 50, Trust::Prefix),
    format("pk.eyJ", "mapbox", Dotted, 60, Trust::Prefix),
    format("sk.eyJ", "mapbox", Dotted, 60, Trust::Prefix),
    format("tk.eyJ", "mapbox", Dotted, 60, Trust::Prefix),
    format("sdk-", "launchdarkly", Url, 36, Trust::Random),
    format("mob-", "launchdarkly", Url, 36, Trust::Random),
    format("api-", "launchdarkly", Url, 36, Trust::Random),
    format("p8e-", "adobe", Alphanumeric, 28, Trust::Word),
    format("lip_", "lichess", Alphanumeric, 20, Trust::Random),
    format("s-s4t2ud-", "intra42", Hex, 60, Trust::Prefix),
    format("s-s4t2af-", "intra42", Hex, 60, Trust::Prefix),
    format("sm_aat_", "settlemint", Alphanumeric, 14, Trust::Word),
    format("sm_pat_", "settlemint", Alphanumeric, 14, Trust::Word),
    format("sm_sat_", "settlemint", Alphanumeric, 14, Trust::Word),
    format("authress_", "authress", Wide, 40, Trust::Random),
    format("scauth_", "authress", Wide, 40, Trust::Random),
    format("sc_", "authress", Wide, 40, Trust::Random),
    format("ext_", "authress", Wide, 40, Trust::Random),
    format("samsara_api_", "samsara", Alphanumeric, 28, Trust::Word),
    format("persona_sandbox_", "persona", Url, 30, Trust::Word),
    format("persona_production_", "persona", Url, 30, Trust::Word),
    format("zpka_", "zuplo", Word, 40, Trust::Word),
    format("cal_live_", "cal", Hex, 30, Trust::Word),
    format("phx_", "posthog", Alphanumeric, 40, Trust::Word),
    format("phs_", "posthog", Alphanumeric, 40, Trust::Word),
    format("sntrys_", "sentry", Base64, 40, Trust::Word),
    format("sntryu_", "sentry", Hex, 40, Trust::Word),
    format("sntrya_", "sentry", Hex, 40, Trust::Word),
    format("sntryi_", "sentry", Hex, 40, Trust::Word),
    format("glsa_", "grafana", Word, 30, Trust::Word),
    format("glc_", "grafana", Base64, 32, Trust::Word),
    format("eyJrIjoi", "grafana", Base64, 60, Trust::Word),
    format("hcaik_", "honeycomb", Alphanumeric, 28, Trust::Word),
    format("hcxik_", "honeycomb", Alphanumeric, 28, Trust::Word),
    format("hcamk_", "honeycomb", Alphanumeric, 28, Trust::Word),
    format("xaat-", "axiom", Uuid, 36, Trust::Word),
    format("xapt-", "axiom", Uuid, 36, Trust::Word),
    format("px-api-", "pixie", Uuid, 36, Trust::Word),
    format("px-dep-", "pixie", Uuid, 36, Trust::Word),
    format("pgar_", "pganalyze", Alphanumeric, 24, Trust::Random),
    format("spu-", "spectral", Hex, 32, Trust::Word),
    format("thog-key-", "trufflehog", Hex, 14, Trust::Word),
    format("aio_", "adafruit", Alphanumeric, 28, Trust::Word),
    format("pub-c-", "pubnub", Url, 36, Trust::Random),
    format("sub-c-", "pubnub", Url, 36, Trust::Random),
    format("sec-c-", "pubnub", Url, 36, Trust::Random),
    format("os_v2_", "onesignal", Word, 40, Trust::Random),
    format("PDU-", "pagerduty", Alphanumeric, 20, Trust::Random),
    format("dG9rO", "intercom", Base64, 50, Trust::Random),
    format("md-", "mandrill", Url, 22, Trust::Random),
    format("packagist_", "packagist", Word, 40, Trust::Random),
    format("NRAK-", "newrelic", Url, 19, Trust::Word),
    format("NRII-", "newrelic", Url, 19, Trust::Word),
    format("NRJS-", "newrelic", Url, 19, Trust::Word),
    format("NRRA-", "newrelic", Url, 19, Trust::Word),
    format("NRAA-", "newrelic", Url, 19, Trust::Word),
    format("NRSP-", "newrelic", Url, 19, Trust::Word),
    format("NRIQ-", "newrelic", Url, 19, Trust::Word),
    format("NRBR-", "newrelic", Hex, 19, Trust::Word),
    format("dt0c01.", "dynatrace", Dotted, 60, Trust::Prefix),
    format("dt0s01.", "dynatrace", Dotted, 60, Trust::Prefix),
    format("dt0s02.", "dynatrace", Dotted, 60, Trust::Prefix),
    format("CCIPAT_", "circleci", Word, 40, Trust::Word),
    format("CCIPRJ_", "circleci", Word, 40, Trust::Word),
    format("bkua_", "buildkite", Alphanumeric, 36, Trust::Random),
    format("squ_", "sonar", Alphanumeric, 36, Trust::Word),
    format("sqp_", "sonar", Alphanumeric, 36, Trust::Word),
    format("sqa_", "sonar", Alphanumeric, 36, Trust::Word),
    format("snyk_uat.", "snyk", Dotted, 30, Trust::Word),
    format("snyk_sat.", "snyk", Dotted, 30, Trust::Word),
    format("ory_", "ory", Word, 30, Trust::Random),
    format("xau_", "xata", Alphanumeric, 30, Trust::Random),
    format("dnsimple_", "dnsimple", Word, 30, Trust::Random),
    format("pk1_", "porkbun", Hex, 60, Trust::Random),
    format("sk1_", "porkbun", Hex, 60, Trust::Random),
    format("tr_prod_", "trigger-dev", Alphanumeric, 20, Trust::Random),
    format("tr_dev_", "trigger-dev", Alphanumeric, 20, Trust::Random),
    format("secret-live-", "stytch", Base64, 30, Trust::Random),
    format("secret-test-", "stytch", Base64, 30, Trust::Random),
    format("secret-", "statsig", Alphanumeric, 36, Trust::Random),
    format("unkey_", "unkey", Alphanumeric, 20, Trust::Random),
    format("dvc_server_", "devcycle", Word, 24, Trust::Random),
    format("dbtc_", "dbt", Url, 30, Trust::Random),
    format("dbtu_", "dbt", Url, 30, Trust::Random),
    format("dbts_", "dbt", Url, 30, Trust::Random),
    format("hxtp_", "hex", Alphanumeric, 40, Trust::Random),
    format("hxtw_", "hex", Alphanumeric, 40, Trust::Random),
    format("retool_", "retool", Word, 24, Trust::Random),
    format("n8n_api_", "n8n", Alphanumeric, 30, Trust::Random),
    format("plane_api_", "plane", Alphanumeric, 30, Trust::Random),
    format("csb_", "codesandbox", Word, 30, Trust::Random),
    format("gitpod_pat_", "gitpod", Dotted, 30, Trust::Random),
    format("vtwn_", "valtown", Alphanumeric, 24, Trust::Random),
    format("jsrp_", "jsr", Alphanumeric, 30, Trust::Random),
    format("jsrd_", "jsr", Alphanumeric, 30, Trust::Random),
    format("sktsec_", "socket", Word, 30, Trust::Random),
    format("vct_", "vanta", Alphanumeric, 30, Trust::Random),
    format("vcs_", "vanta", Alphanumeric, 30, Trust::Random),
    format("m0-", "mem0", Alphanumeric, 36, Trust::Random),
    format("ctx7sk-", "context7", Url, 30, Trust::Random),
    format("crsr_", "cursor", Alphanumeric, 40, Trust::Random),
    format("dtn_", "daytona", Alphanumeric, 40, Trust::Random),
    format("bu_", "browser-use", Url, 40, Trust::Random),
    format("ste-", "steel", Alphanumeric, 40, Trust::Random),
    format("hcp.", "hashicorp", Dotted, 60, Trust::Random),
    format("nk-", "nomic", Url, 40, Trust::Random),
    format("mb_", "metabase", Base64, 36, Trust::Random),
    format("3MVG", "salesforce", Dotted, 60, Trust::Random),
    format("5Aep", "salesforce", Dotted, 60, Trust::Random),
    format("AGE-SECRET-KEY-PQ-1", "age", Upper, 30, Trust::Prefix),
    format("AGE-SECRET-KEY-1", "age", Upper, 30, Trust::Prefix),
    format("SUA", "nats", Upper, 54, Trust::Word),
    format("SAA", "nats", Upper, 54, Trust::Word),
    format("xprv9", "bip32", Alphanumeric, 100, Trust::Word),
    format("v1.local.", "paseto", Dotted, 60, Trust::Word),
    format("v1.public.", "paseto", Dotted, 60, Trust::Word),
    format("v2.local.", "paseto", Dotted, 60, Trust::Word),
    format("v2.public.", "paseto", Dotted, 60, Trust::Word),
    format("v3.local.", "paseto", Dotted, 60, Trust::Word),
    format("v3.public.", "paseto", Dotted, 60, Trust::Word),
    format("v4.local.", "paseto", Dotted, 60, Trust::Word),
    format("v4.public.", "paseto", Dotted, 60, Trust::Word),
    format("ZXlK", "jwt", Base64, 60, Trust::Word),
    format("api.softlayer.com/soap/v3/", "softlayer", Alphanumeric, 50, Trust::Prefix),
    format("api.softlayer.com/soap/v3.1/", "softlayer", Alphanumeric, 50, Trust::Prefix),
    format("secret-token:", "secret-token", Wide, 8, Trust::Word),
    format("RGAPI-", "riot", Uuid, 36, Trust::Word),
    format("pdus+_", "pagerduty", Word, 24, Trust::Word),
    format("ptla_", "pterodactyl", Alphanumeric, 36, Trust::Word),
    format("ptlc_", "pterodactyl", Alphanumeric, 36, Trust::Word),
    format("ZENPROKEY_", "zenml", Wide, 40, Trust::Word),
    format("ZENKEY_", "zenml", Wide, 40, Trust::Word),
    format("waka_", "wakatime", Uuid, 36, Trust::Word),
    format("AIK_SECRET_", "aikido", Word, 30, Trust::Word),
    format("AIK_CI_", "aikido", Word, 30, Trust::Word),
    format("fnAE", "fauna", Url, 32, Trust::Random),
    format("fnAD", "fauna", Url, 32, Trust::Random),
    format("mlsn.", "mailersend", Hex, 48, Trust::Word),
    format("KGAT_", "kaggle", Hex, 28, Trust::Word),
    format("ovsxat_", "openvsx", Uuid, 36, Trust::Word),
    format("ovsxp_", "openvsx", Uuid, 36, Trust::Word),
    format("rf_", "roboflow", Alphanumeric, 20, Trust::Random),
    format("AVNS_", "aiven", Url, 16, Trust::Random),
    format("jca_", "jumpcloud", Alphanumeric, 32, Trust::Random),
    format("BSA", "brave", Url, 27, Trust::Random),
    format("nyk_v0_", "nylas", Alphanumeric, 40, Trust::Word),
    format("VF.DM.", "voiceflow", Dotted, 30, Trust::Word),
    format("SCW", "scaleway", Upper, 17, Trust::Random),
    format("cbkey_", "crunchy", Alphanumeric, 24, Trust::Random),
    format("pk-lf-", "langfuse", Uuid, 36, Trust::Word),
    format("kit_", "convertkit", Alphanumeric, 20, Trust::Random),
    format("bpk-", "builder", Hex, 32, Trust::Word),
    format("orgsk_", "redocly", Word, 30, Trust::Random),
    format("ak_", "api-key", Alphanumeric, 24, Trust::Random),
    format("X1-ZWz", "zillow", Url, 12, Trust::Random),
    format("ifttt.com/trigger/", "webhook", Path, 36, Trust::Prefix),
    format("infura.io/v3/", "infura", Hex, 32, Trust::Prefix),
    format("infura.io/ws/v3/", "infura", Hex, 32, Trust::Prefix),
    format(".g.alchemy.com/v2/", "alchemy", Url, 20, Trust::Prefix),
    format("hc-ping.com/", "healthchecks", Uuid, 36, Trust::Prefix),
    format("quiknode.pro/", "quicknode", Hex, 36, Trust::Prefix),
    format("apikey_", "api-key", Word, 24, Trust::Random),
    format("apikey-", "api-key", Url, 24, Trust::Random),
    format("pat_", "access-token", Alphanumeric, 24, Trust::Random),
    format("pat-", "access-token", Url, 32, Trust::Random),
    format("tok_", "access-token", Alphanumeric, 24, Trust::Random),
    format("key_", "api-key", Alphanumeric, 24, Trust::Random),
    format("priv_", "secret-key", Alphanumeric, 24, Trust::Random),
    format("pw_", "secret-key", Alphanumeric, 24, Trust::Random),
    format("api_", "api-key", Alphanumeric, 28, Trust::Random),
    format("sk_", "secret-key", Word, 28, Trust::Random),
    format("pk_", "api-key", Word, 28, Trust::Random),
    format("sb_publishable_", "supabase", Url, 16, Trust::Word),
    format("SK.", "secret-key", Dotted, 40, Trust::Random),
    format("dapp_", "api-key", Alphanumeric, 30, Trust::Random),
    format("cmk_", "checkmk", Alphanumeric, 24, Trust::Random),
    format("lin_wh_", "linear", Alphanumeric, 24, Trust::Word),
    format("atlasv1.", "terraform", Url, 50, Trust::Word),
    format("dpt_", "api-key", Alphanumeric, 30, Trust::Random),
    format("bkct_", "buildkite", Word, 24, Trust::Random),
    format("bkpt_", "buildkite", Word, 24, Trust::Random),
    format("bkaj_", "buildkite", Word, 24, Trust::Random),
    format("ghsr_", "github", Alphanumeric, 30, Trust::Random),
    format("zk_prod_", "zerion", Hex, 24, Trust::Word),
    format("admi-", "keygen", Hex, 60, Trust::Word),
    format("crx_", "api-key", Alphanumeric, 30, Trust::Random),
    format("sup_sk_", "sumup", Alphanumeric, 24, Trust::Word),
    format("klarna_live_api_", "klarna", Wide, 30, Trust::Word),
    format("klarna_test_api_", "klarna", Wide, 30, Trust::Word),
    format("oa2-client-id_", "blynk", Url, 24, Trust::Word),
    format("gAAAAAB", "fernet", Url, 80, Trust::Word),
    format("amzn1.oa2-cs.v1.", "amazon", Hex, 60, Trust::Prefix),
    format("EAAAE", "square", Url, 50, Trust::Word),
    format("sbx_", "api-key", Alphanumeric, 30, Trust::Random),
    format("cpk_", "chutes", Dotted, 30, Trust::Random),
    format("syn_", "api-key", Alphanumeric, 28, Trust::Random),
    format("ms-", "api-key", Alphanumeric, 32, Trust::Random),
    format("LA-", "llama", Alphanumeric, 60, Trust::Random),
    format("BBFF-", "ubidots", Alphanumeric, 28, Trust::Word),
    format("apik_", "ship24", Alphanumeric, 24, Trust::Random),
    format("NF-", "nightfall", Alphanumeric, 30, Trust::Random),
    format("na1.", "fullstory", Base64, 60, Trust::Random),
    format("flp_", "friendli", Alphanumeric, 40, Trust::Random),
    format("mka_", "mergify", Url, 30, Trust::Random),
    format("hawk.", "stackhawk", Dotted, 36, Trust::Random),
    format("KEY0", "telnyx", Word, 50, Trust::Word),
    format("czu_", "coze", Alphanumeric, 40, Trust::Random),
    format("czs_", "coze", Alphanumeric, 40, Trust::Random),
    format("cfxk_", "cfx", Word, 20, Trust::Random),
    format("salad_cloud_", "salad", Word, 36, Trust::Random),
    format("IGQ", "instagram", Alphanumeric, 100, Trust::Word),
    format("IGAA", "instagram", Alphanumeric, 100, Trust::Word),
    format("web_", "percy", Hex, 32, Trust::Word),
    format("mfa.", "discord", Url, 80, Trust::Word),
    format("6Le", "recaptcha", Url, 37, Trust::Random),
    format("6Ld", "recaptcha", Url, 37, Trust::Random),
    format("6Lf", "recaptcha", Url, 37, Trust::Random),
    format("6Lc", "recaptcha", Url, 37, Trust::Random),
    format("APP_USR-", "mercadopago", Url, 40, Trust::Random),
    format("$2a$", "password-hash", Crypt, 40, Trust::Prefix),
    format("$2b$", "password-hash", Crypt, 40, Trust::Prefix),
    format("$2y$", "password-hash", Crypt, 40, Trust::Prefix),
    format("$argon2", "password-hash", Crypt, 40, Trust::Prefix),
    format("$6$", "password-hash", Crypt, 40, Trust::Prefix),
    format("$5$", "password-hash", Crypt, 40, Trust::Prefix),
    format("$y$", "password-hash", Crypt, 40, Trust::Prefix),
    format("$scrypt$", "password-hash", Crypt, 40, Trust::Prefix),
    format("$apr1$", "password-hash", Crypt, 24, Trust::Prefix),
    format("$1$", "password-hash", Crypt, 24, Trust::Prefix),
    format("$9$", "password-hash", Crypt, 40, Trust::Prefix),
    format("$pbkdf2", "password-hash", Crypt, 40, Trust::Prefix),
    format("pbkdf2_sha256$", "password-hash", Crypt, 30, Trust::Word),
    format("$P$", "password-hash", Crypt, 30, Trust::Prefix),
    format("$H$", "password-hash", Crypt, 30, Trust::Prefix),
    format("{SSHA}", "password-hash", Base64, 28, Trust::Prefix),
    format("{SSHA512}", "password-hash", Base64, 28, Trust::Prefix),
];

/// A format that is known by its middle or its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Infix {
    /// Compared with case; `0` stands for any digit.
    pub(super) literal: &'static str,
    pub(super) kind: &'static str,
    before: (Alphabet, usize, usize),
    after: (Alphabet, usize, usize),
}

const fn infix(
    literal: &'static str,
    kind: &'static str,
    before: (Alphabet, usize, usize),
    after: (Alphabet, usize, usize),
) -> Infix {
    Infix { literal, kind, before, after }
}

/// The table of those: what stands before and behind the literal, at least and at most so long.
#[rustfmt::skip]
pub(super) const INFIXES: &[Infix] = &[
    infix(":AA", "telegram", (Digit, 8, 12), (Url, 30, 38)),
    infix("0Q~", "azure", (Tilde, 3, 3), (Tilde, 31, 34)),
    infix(".atlasv1.", "terraform", (Alphanumeric, 14, 14), (Wide, 50, 80)),
    infix("T3BlbkFJ", "openai", (Url, 20, 200), (Url, 20, 200)),
    infix("_mmk", "maxmind", (Word, 36, 36), (Alphanumeric, 0, 0)),
    infix("est_pub_", "lob", (Alphanumeric, 1, 1), (Hex, 30, 48)),
    infix("est_", "lob", (Alphanumeric, 1, 1), (Alphanumeric, 30, 48)),
    infix("otly_", "rootly", (Alphanumeric, 2, 2), (Hex, 48, 64)),
    infix("_live_", "live-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("_prod_", "live-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("_test_", "live-key", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120)),
    infix("_secret_", "secret-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("_api_", "api-key", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120)),
    infix("_pat_", "access-token", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("_sk_", "secret-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("_key_", "api-key", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120)),
    infix("_token_", "access-token", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120)),
    infix("_oauth_", "access-token", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120)),
    infix("_access_", "access-token", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120)),
    infix("hook/", "webhook", (Alphanumeric, 0, 12), (Path, 20, 200)),
    infix("hooks/", "webhook", (Alphanumeric, 0, 12), (Path, 20, 200)),
    infix("-live-", "live-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("-prod-", "live-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("-api-", "api-key", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120)),
    infix("-key-", "api-key", (Alphanumeric, 2, 12), (Alphanumeric, 24, 120)),
    infix("-pat-", "access-token", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("-sk-", "secret-key", (Alphanumeric, 2, 12), (Alphanumeric, 20, 120)),
    infix("NRAL", "newrelic", (Alphanumeric, 36, 36), (Alphanumeric, 0, 0)),
    infix("-NRMA", "newrelic", (Alphanumeric, 42, 42), (Alphanumeric, 0, 0)),
    infix("!AQ", "salesforce", (Alphanumeric, 15, 18), (Dotted, 60, 200)),
    infix("-us", "mailchimp", (Alphanumeric, 32, 32), (Digit, 1, 2)),
    infix(":APA91b", "firebase", (Url, 9, 30), (Url, 100, 300)),
    infix("JQQJ99", "azure", (Alphanumeric, 40, 60), (Alphanumeric, 20, 40)),
    infix("AZDO", "azure", (Alphanumeric, 70, 80), (Alphanumeric, 4, 8)),
    infix("AzFu", "azure", (Base64, 36, 60), (Base64, 4, 12)),
    infix("AzSe", "azure", (Base64, 36, 60), (Base64, 4, 12)),
    infix("AzCa", "azure", (Base64, 30, 60), (Base64, 4, 12)),
    infix("AIoT", "azure", (Base64, 30, 60), (Base64, 4, 20)),
    infix("ACDb", "azure", (Base64, 70, 90), (Base64, 4, 16)),
    infix("+ASt", "azure", (Base64, 70, 90), (Base64, 4, 16)),
    infix("+ACR", "azure", (Base64, 36, 60), (Base64, 4, 12)),
];

const HEAD_LEN: usize = 256;
const COLOUR_LEN_MAX: usize = 24;

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
    let is_prose = format.trust == Trust::Random && !value::is_token_body(head);
    let is_token = !is_placeholder && !is_prose;
    is_token.then(|| body_start + run(rest, format.alphabet).len())
}

/// Place of the token whose literal stands at `at`.
pub(super) fn around(text: &[u8], at: usize, infix: &Infix) -> Option<(usize, usize)> {
    // Most places end here: what follows is too short.
    let (alphabet, least, _) = infix.after;
    let last = at + infix.literal.len() + least;
    if least > 0 && !text.get(last - 1).is_some_and(|b| is_in(*b, alphabet)) {
        return None;
    }
    let (alphabet, min, max) = infix.before;
    let before = text[..at].iter().rev().take(max + 1).take_while(|b| is_in(**b, alphabet)).count();
    let start = at - before.min(max);
    if before < min || before > max && !starts_word(text, start) {
        return None;
    }
    let (alphabet, min, max) = infix.after;
    let behind = &text[at + infix.literal.len()..];
    let run = behind.iter().take(max + 1).take_while(|b| is_in(**b, alphabet)).count();
    let after = run - behind[..run].iter().rev().take_while(|b| **b == b'.').count();
    let end = at + infix.literal.len() + after;
    // `my_test_…` begins many names of functions.
    let is_spoken = || {
        min >= 20
            && infix.literal.contains(['_', '-', '/'])
            && !value::is_random(&text[end - after..end])
    };
    let is_token =
        (min..=max).contains(&after) && !value::is_monotonous(&text[start..end]) && !is_spoken();
    is_token.then_some((start, end))
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
        || INFIXES.iter().any(|infix| infix.kind.as_bytes() == kind)
}

/// Access key ids of AWS have one length; longer runs in capitals are something else.
fn is_id(format: &Format) -> bool {
    format.kind == "aws" && format.alphabet == Upper
}

fn run(text: &[u8], alphabet: Alphabet) -> &[u8] {
    let len = text.iter().take_while(|b| is_in(**b, alphabet)).count();
    let trailing = text[..len].iter().rev().take_while(|b| matches!(b, b'.' | b'/')).count();
    &text[..len - trailing]
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
        Uuid => byte.is_ascii_hexdigit() || byte == b'-',
        Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        UpperDash => byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-',
        Percent => byte.is_ascii_alphanumeric() || byte == b'%',
        Wide => byte.is_ascii_alphanumeric() || b"_-.+/=".contains(&byte),
        Crypt => byte.is_ascii_alphanumeric() || b"./$=,+-".contains(&byte),
    }
}

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
    let numbers = text[..at - 1].iter().rev().take(COLOUR_LEN_MAX).take_while(in_numbers).count();
    let is_sequence = text[..at - 1 - numbers].last() == Some(&b'[');
    if is_sequence { numbers + 2 } else { 0 }
}

/// What stands before the colour sequence at the end of `text`, if there is one.
pub(super) fn without_colour(text: &[u8]) -> &[u8] {
    const ESCAPES: &[&[u8]] =
        &[b"\x1b", b"\\u001b", b"\\u001B", b"\\x1b", b"\\x1B", b"\\033", b"\\e"];
    let len = colour_len(text, text.len());
    let before = &text[..text.len() - len];
    let escape = ESCAPES.iter().find_map(|escape| before.strip_suffix(*escape));
    if len > 0 { escape.unwrap_or(before) } else { text }
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
        assert!(starts_word(b"\x1b[1;32mhf_", 7));
        assert!(starts_word(br"\u001b[38;2;1;2;3mhf_", 18));
        assert!(!starts_word(b"32mhf_", 3));
    }
}
