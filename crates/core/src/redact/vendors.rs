//! Names of services whose tokens have no prefix of their own: a generated value under such a name is a
//! secret. Both tables are in order, to be looked up by halves.
//!
//! Ordinary words are left out: they stand everywhere.

const NAME_LEN_MAX: usize = 32;

/// Names in order, with the pairs of letters that they begin and end with: most words differ in those.
pub(super) struct Names {
    pub(super) names: &'static [&'static str],
    starts: [u32; 32],
    ends: [u32; 32],
}

impl Names {
    const fn new(names: &'static [&'static str]) -> Self {
        let mut table = Self { names, starts: [0; 32], ends: [0; 32] };
        let mut index = 0;
        while index < names.len() {
            let name = names[index].as_bytes();
            let (first, last) = (name[0] & 31, name[name.len() - 1] & 31);
            table.starts[first as usize] |= 1 << (name[1] & 31);
            table.ends[first as usize] |= 1 << last;
            index += 1;
        }
        table
    }

    /// Whether the name is one of them, in whatever case.
    pub(super) fn holds(&self, name: &[u8]) -> bool {
        let [first, second, .., last] = name else { return false };
        let row = usize::from(first & 31);
        let is_near = self.starts[row] >> (second & 31) & 1 == 1
            && self.ends[row] >> (last & 31) & 1 == 1
            && name.len() <= NAME_LEN_MAX;
        is_near && self.find(name)
    }

    fn find(&self, name: &[u8]) -> bool {
        let mut lower = [0; NAME_LEN_MAX];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.names.binary_search_by(|known| known.as_bytes().cmp(lower)).is_ok()
    }
}

/// Each of these is also a trigger.
pub(super) static VENDORS: Names = Names::new(TRIGGERING);
/// The letters of these are too common to stop at: they count only beside another word of a name.
pub(super) static QUIET_VENDORS: Names = Names::new(QUIET);

#[rustfmt::skip]
pub(super) const TRIGGERING: &[&str] = &[
    "abstractapi", "abuseipdb", "accuweather", "activecampaign", "adafruit", "adobe", "adyen",
    "aftership", "ahrefs", "airbrake", "aircall", "airtable", "airvisual", "aiven", "akamai",
    "alegra", "algolia", "alibaba", "aliyun", "alphavantage", "amadeus", "ambee", "amplitude",
    "anypoint", "apideck", "apify", "apilayer", "apollographql", "appcues", "appsflyer", "apptivo",
    "appveyor", "appwrite", "aqicn", "artifactory", "asana", "assemblyai", "astronomer",
    "atlassian", "auth0", "authress", "autodesk", "axonaut", "ayrshare", "backblaze", "bannerbear",
    "basecamp", "beamer", "beebole", "betterstack", "bigcommerce", "billomat", "binance", "bintray",
    "bitbucket", "bitcoinaverage", "bitfinex", "bitgo", "bitly", "bitmex", "bitrise", "bitstamp",
    "bittrex", "blazemeter", "blitapp", "blockcypher", "blockfrost", "blynk", "bombbomb",
    "borgbase", "braintree", "braintrust", "brandfetch", "braze", "brevo", "browserstack",
    "browshot", "bscscan", "bugherd", "bugsnag", "buildkite", "bulksms", "bunnycdn", "buttercms",
    "bybit", "caflou", "calendarific", "calendly", "callrail", "campaignmonitor", "capsulecrm",
    "captaindata", "carboninterface", "cashboard", "caspio", "censys", "cexio", "chargebee",
    "chartmogul", "chatfuel", "checklyhq", "checkvist", "circleci", "clarifai", "clearbit",
    "clearblade", "clickatell", "clickhouse", "clicksend", "clickup", "clinchpad", "clockify",
    "cloudant", "cloudflare", "cloudimage", "cloudinary", "cloudplan", "cloudsmith", "cloudways",
    "cloze", "clustdoc", "cockroachdb", "codacy", "codeclimate", "codecov", "codemagic", "codeship",
    "cohere", "coinapi", "coinbase", "coingecko", "coinlayer", "coinlib", "coinmarketcap",
    "coinpaprika", "commercejs", "companyhub", "confluence", "confluent", "contentful",
    "contribsys", "convertapi", "convertkit", "couchbase", "coveralls", "crowdin", "cryptocompare",
    "cryptopanic", "currencycloud", "currencyfreaks", "currencylayer", "currentsapi", "customerio",
    "databento", "databricks", "datadog", "datagov", "datarobot", "datastax", "datocms",
    "deadmanssnitch", "deepai", "deepgram", "deepl", "deepseek", "descope", "detectlanguage",
    "dfuse", "diffbot", "digicert", "digitalocean", "discord", "disqus", "dockerhub", "docusign",
    "doppler", "droneci", "dropbox", "dwolla", "dynadot", "dynatrace", "dyspatch", "easypost",
    "edamam", "elasticemail", "elevenlabs", "emailoctopus", "eodhd", "etherscan", "ethplorer",
    "etsy", "eventbrite", "everhour", "evernote", "expedia", "facebook", "faceplusplus", "fastly",
    "fastspring", "faunadb", "feedier", "fetchrss", "fibery", "figma", "finicity", "finnhub",
    "fitbit", "fivetran", "flatio", "fleetbase", "flickr", "flightapi", "flightaware", "flightlabs",
    "flightstats", "flowflu", "flutterwave", "fortanix", "foursquare", "freecodecamp", "freemius",
    "freshbooks", "freshchat", "freshdesk", "freshsales", "freshworks", "fullcontact", "fullstory",
    "fusebill", "fusionauth", "geckoboard", "geoapify", "geocodio", "geoipify", "getemail",
    "getgeoapi", "giphy", "gitbook", "gitea", "gitguardian", "gitter", "glassnode", "gocanvas",
    "gocardless", "godaddy", "gorgias", "grafana", "graphcms", "graphhopper", "greynoise",
    "groovehq", "gtmetrix", "gumroad", "gyazo", "hasura", "helius", "hellosign", "helpcrunch",
    "helpscout", "hereapi", "hereapp", "heroku", "hetzner", "highlevel", "hiveage", "holidayapi",
    "honeybadger", "honeycomb", "hotjar", "hubspot", "huggingface", "hypertrack", "ibmcloud",
    "iexapis", "iexcloud", "imagekit", "imgur", "infisical", "infura", "inngest", "instagram",
    "instamojo", "integromat", "intercom", "invoiceocean", "ipapi", "ipdata", "ipify", "ipinfo",
    "ipstack", "iterable", "jenkins", "jfrog", "jira", "jotform", "jsonbin", "jumpcloud",
    "jumpseller", "jupiterone", "kaleyra", "kanbantool", "keycdn", "kickbox", "kickofflabs",
    "klarna", "klaviyo", "klipfolio", "knapsackpro", "kraken", "kucoin", "langfuse", "langsmith",
    "lastpass", "launchdarkly", "leanplum", "lemlist", "lemonsqueezy", "lessannoyingcrm", "linear",
    "linkedin", "linode", "liveagent", "livechat", "livekit", "loadimpact", "lob", "logdna",
    "logflare", "loggly", "loginradius", "logrocket", "logtail", "logz", "lokalise", "looker",
    "loyverse", "lunchmoney", "luno", "magicbell", "mailboxlayer", "mailchimp", "mailerlite",
    "mailgun", "mailjet", "mailmodo", "mailsac", "mailslurp", "mailtrap", "mandrill", "mapbox",
    "mapillary", "mapotempo", "mapquest", "mattermost", "mavenlink", "maxmind", "mediastack",
    "meilisearch", "meistertask", "meraki", "mercadopago", "mesibo", "messagebird", "metaapi",
    "mindbody", "mixcloud", "mixmax", "mixpanel", "mockaroo", "mollie", "mongodbatlas",
    "monkeylearn", "moonclerk", "moonpay", "moosend", "moralis", "mouseflow", "mulesoft",
    "myfreshworks", "netcore", "nethunt", "netlify", "netsuite", "neutrinoapi", "neverbounce",
    "newrelic", "newsapi", "newsdata", "nexmo", "nftport", "ngrok", "nicereply", "nightfall",
    "nozbe", "nylas", "nypl", "nytimes", "oanda", "okta", "omnisend", "onedesk", "onelogin",
    "onepagecrm", "opencage", "opencagedata", "opengraphr", "openweather", "openweathermap",
    "opsgenie", "optimizely", "ovh", "oxylabs", "packagecloud", "packagist", "pagerduty",
    "pandadoc", "pandascore", "papertrail", "parsehub", "pastebin", "paydirt", "paydirtapp",
    "paymo", "paymongo", "payoneer", "paypal", "paystack", "peopledatalabs", "pexels", "pinata",
    "pinecone", "pingdom", "pipedrive", "pirsch", "pixabay", "plaid", "planyo", "plivo", "podio",
    "pollsapi", "polygonscan", "portkey", "postageapp", "posthog", "postmark", "prismic",
    "privateai", "procore", "prodpad", "productboard", "proxycrawl", "pubnub", "pulumi",
    "pushbullet", "pusher", "pushover", "qase", "qdrant", "qualtrics", "quickbooks", "quicknode",
    "railway", "rapidapi", "ravelry", "rawg", "raygun", "razorpay", "readwise", "recaptcha",
    "recurly", "redislabs", "relic", "rentman", "restpack", "retool", "revenuecat", "ringcentral",
    "ritekit", "roboflow", "rocketreach", "rollbar", "route4me", "rubygems", "runpod", "runrunit",
    "runscope", "salesblink", "salesflare", "salesforce", "salesloft", "salesmate", "samsara",
    "satismeter", "saucelabs", "scaleway", "scraperapi", "scraperbox", "scrapfly", "scrapingant",
    "scrapingbee", "scrapingdog", "screenshotapi", "screenshotlayer", "scrutinizer", "selectpdf",
    "sellfy", "sendbird", "sendgrid", "sendinblue", "sendpulse", "sentry", "serpapi", "serper",
    "serphouse", "serpstack", "servicenow", "sheety", "shipday", "shipengine", "shippo", "shodan",
    "shopee", "shopify", "shutterstock", "signable", "signalwire", "signnow", "sigopt", "simfin",
    "simplybook", "sitejet", "sketchfab", "skrapp", "smartlook", "smartsheet", "smartsheets",
    "smsapi", "snipcart", "snipeit", "snowflake", "snyk", "softlayer", "solarwinds", "sonar",
    "sonarcloud", "sonarqube", "soundcloud", "sourcegraph", "sourcehut", "sparkpost",
    "sparkpostmail", "spectralops", "speechtext", "splunk", "spoonacular", "sportmonks",
    "sportradar", "sportsmonk", "spotify", "spotinst", "sqreen", "squarespace", "sslmate",
    "stackhawk", "statuscake", "statuspage", "stockdata", "stormglass", "storyblok", "strava",
    "streamlabs", "stytch", "sumo", "sumologic", "supabase", "supernotes", "supportbee",
    "surveymonkey", "surveysparrow", "survicate", "swaggerhub", "swiftype", "tailscale", "talend",
    "tatumio", "tavily", "taxjar", "teamgate", "telegram", "telesign", "teletype", "telnyx",
    "testingbot", "textlocal", "textmagic", "thenewsapi", "theoddsapi", "thingsboard", "thingspeak",
    "thinkific", "thousandeyes", "ticketmaster", "tiingo", "tiktok", "timecamp", "timezoneapi",
    "tmdb", "tmetric", "todoist", "todoistapi", "toggl", "tomtom", "tradier", "travelpayouts",
    "travis", "travisci", "trello", "tumblr", "turso", "twelvedata", "twilio", "twitch",
    "twitchapi", "twitter", "typeform", "typekit", "typesense", "typetalk", "ubidots", "ubiquiti",
    "unitybuild", "unsplash", "uplead", "uploadcare", "uploadthing", "uproc", "upstash",
    "uptimerobot", "urlscan", "usersnap", "vagrantcloud", "vatlayer", "vbout", "vercel", "verimail",
    "veriphone", "viewneo", "vimeo", "virustotal", "voiceflow", "voicegain", "vonage", "voodoosms",
    "vouchery", "vpnapi", "vultr", "vyte", "wakatime", "walkscore", "wandb", "wasabi", "weatherapi",
    "weatherbit", "webex", "webflow", "webscraper", "webscraping", "wechat", "weglot",
    "weightsandbiases", "whoisxml", "whoisxmlapi", "whoxy", "wistia", "wistiaapi", "woocommerce",
    "woodpecker", "workable", "workday", "workos", "worldcoinindex", "worldweatheronline", "wrike",
    "xata", "xendit", "xero", "xray", "yandex", "yelp", "ynab", "yodlee", "youneedabudget",
    "yousign", "youtube", "zapier", "zapierapi", "zendesk", "zenduty", "zenrows", "zenrowsapi",
    "zenscrape", "zenserp", "zeplin", "zerobounce", "zerotier", "zillow", "zipapi", "zipbooks",
    "zipcodeapi", "zipcodebase", "zoho", "zonka", "zoomeye", "zoominfo", "zulip", "zuora", "zuplo",
];

#[rustfmt::skip]
const QUIET: &[&str] = &[
    "algorithmia", "alpaca", "anthropic", "apiflash", "appcenter", "appdynamics", "appfollow",
    "appoptics", "artsy", "aviationstack", "aylien", "azure", "baremetrics", "blocknative",
    "campayn", "checkly", "cloudconvert", "cloudmersive", "cloverly", "contentstack", "convex",
    "coursera", "crowdstrike", "currencyscoop", "dailymotion", "databox", "deno", "detectify",
    "directus", "dnsimple", "documenso", "documo", "doordash", "dotdigital", "dropcontact",
    "dynalist", "ebay", "edenai", "elasticsearch", "enablex", "enormail", "exchangerateapi",
    "extractorapi", "facepp", "fastforex", "filestack", "fixerio", "flexport", "freshservice",
    "frontapp", "geocodify", "getresponse", "getstream", "github", "gitlab", "google",
    "guardianapi", "happyscribe", "healthchecks", "hostinger", "hunterio", "hyperbrowser",
    "iconfinder", "imagga", "incidentio", "insightly", "intrinio", "ip2location", "ipgeolocation",
    "ipqualityscore", "ipregistry", "kinde", "kontent", "lastfm", "linenotify", "linkpreview",
    "livestorm", "locationiq", "mailersend", "marketo", "marketstack", "mastodon", "medium",
    "metabase", "mistral", "mparticle", "nasdaq", "newscatcher", "notion", "numverify",
    "nutritionix", "onesignal", "onfido", "openai", "openrouter", "opensea", "openuv", "paperform",
    "papertrailapp", "parseur", "partnerstack", "perplexity", "pinterest", "pivotaltracker",
    "plesk", "poeditor", "portainer", "positionstack", "quaderno", "qualaroo", "rebrandly",
    "refersion", "replicate", "rippling", "rootly", "scaleai", "scalr", "scrapestack",
    "securitytrails", "sendgridapi", "sendowl", "shipstation", "shortio", "shotstack", "signaturit",
    "sinch", "siteground", "skybiometry", "slack", "smartling", "smartystreets", "speechtextai",
    "statsig", "steam", "stitchdata", "storecove", "stripe", "stripo", "sugester", "synthesia",
    "tableau", "tallyfy", "teamviewer", "telestream", "tenable", "tickettailor", "timezonedb",
    "tomorrowio", "transferwise", "treasuredata", "uclassify", "upcdatabase", "userflow",
    "userstack", "versioneye", "visualcrossing", "weatherstack", "weaviate", "whatsapp",
    "wordpress", "wunderground", "yahoo",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_its_table() {
        for table in [&VENDORS, &QUIET_VENDORS] {
            assert!(table.names.is_sorted());
            for name in table.names {
                assert!(table.holds(name.as_bytes()), "{name}");
                assert!(table.holds(name.to_ascii_uppercase().as_bytes()), "{name}");
                assert!(!table.holds(format!("{name}q").as_bytes()), "{name}");
            }
        }
    }
}
