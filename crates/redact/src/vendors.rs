//! Names of services whose tokens have no prefix of their own: a generated value under such a name is a
//! secret. Both tables are in order, to be looked up by halves.
//!
//! Ordinary words are left out: they stand everywhere.

const NAME_LEN_MAX: usize = 32;

/// Names in order, with what most words differ in: their length for each pair of letters that they begin
/// with, and the letter that they end with.
pub(super) struct Names {
    pub(super) names: &'static [&'static str],
    lengths: [[u32; 32]; 32],
    ends: [u32; 32],
}

impl Names {
    const fn new(names: &'static [&'static str]) -> Self {
        let mut table = Self {
            names,
            lengths: [[0; 32]; 32],
            ends: [0; 32],
        };
        let mut index = 0;
        while index < names.len() {
            let name = names[index].as_bytes();
            let (first, last) = (name[0] & 31, name[name.len() - 1] & 31);
            table.lengths[first as usize][name[1] as usize & 31] |= 1 << name.len();
            table.ends[first as usize] |= 1 << last;
            index += 1;
        }
        table
    }

    /// Whether the name is one of them, in whatever case.
    pub(super) fn holds(&self, name: &[u8]) -> bool {
        let [first, second, .., last] = name else {
            return false;
        };
        let row = usize::from(first & 31);
        let is_near = name.len() < NAME_LEN_MAX
            && self.lengths[row][usize::from(second & 31)] >> name.len() & 1 == 1
            && self.ends[row] >> (last & 31) & 1 == 1;
        is_near && self.find(name)
    }

    fn find(&self, name: &[u8]) -> bool {
        let mut lower = [0; NAME_LEN_MAX];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.names
            .binary_search_by(|known| known.as_bytes().cmp(lower))
            .is_ok()
    }
}

/// Each of these is also a trigger.
pub(super) static VENDORS: Names = Names::new(TRIGGERING);
/// The letters of these are too common to stop at: they count only beside another word of a name.
pub(super) static QUIET_VENDORS: Names = Names::new(QUIET);

#[rustfmt::skip]
pub(super) const TRIGGERING: &[&str] = &[
    "abbysale", "ably", "abstractapi", "abuseipdb", "abyssale", "accuweather", "acrcloud",
    "activecampaign", "adafruit", "adobe", "adyen", "adzerk", "adzuna", "aeroworkflow", "aftership",
    "agora", "ahrefs", "ai21", "airbrake", "airbyte", "aircall", "airfocus", "airtable",
    "airvisual", "aiven", "akamai", "akeyless", "alchemy", "alconost", "alegra", "aletheiaapi",
    "algolia", "alibaba", "alienvault", "aliyun", "alphavantage", "amadeus", "ambee", "amplitude",
    "ankr", "anomali", "anypoint", "api2cart", "apideck", "apifonica", "apify", "apilayer",
    "apimatic", "apiscience", "apitemplate", "apollographql", "appcues", "appsflyer", "appsynergy",
    "apptivo", "appveyor", "appwrite", "aqicn", "arangodb", "arbiscan", "arcgis", "argocd",
    "artifactory", "asaas", "asana", "ashbyhq", "assemblyai", "astronomer", "atlassian", "audd",
    "auth0", "authentik", "authress", "autodesk", "autoklose", "autopilot", "avalara", "avaza",
    "axonaut", "ayrshare", "backblaze", "baichuan", "bamboohr", "bannerbear", "barchart", "baseapi",
    "basecamp", "baselime", "basescan", "baseten", "beamer", "beebole", "beehiiv", "benzinga",
    "besttime", "betterstack", "bigcommerce", "billomat", "binance", "binaryedge", "bintray",
    "bitbar", "bitbucket", "bitcoinaverage", "bitfinex", "bitget", "bitgo", "bitly", "bitmart",
    "bitmex", "bitpay", "bitrise", "bitstamp", "bittrex", "blablabus", "blackfire", "blazemeter",
    "blitapp", "blockcypher", "blockdaemon", "blockfrost", "blockonomics", "blynk", "bombbomb",
    "boostnote", "borgbase", "bowmb", "braintree", "braintrust", "branchio", "brandfetch", "braze",
    "brevo", "brex", "browserbase", "browserless", "browserstack", "browshot", "bscscan", "buddyns",
    "budibase", "bugcrowd", "bugherd", "bugsnag", "buildbuddy", "buildkite", "buildpulse", "bulbul",
    "bulksms", "bunnycdn", "buttercms", "bybit", "caflou", "calcom", "calendarific", "calendly",
    "callrail", "calorieninja", "campaignmonitor", "capsulecrm", "captaindata", "carboninterface",
    "cashboard", "cashfree", "caspio", "ccloud", "cdn77", "censys", "centralstationcrm", "cerebras",
    "cexio", "chainbase", "chargebee", "chargify", "chartmogul", "chatfuel", "chatwork",
    "checklyhq", "checkvist", "chilipiper", "chronosphere", "circleci", "civo", "clarifai",
    "clearbit", "clearblade", "clearout", "clickatell", "clickhelp", "clickhouse", "clicksend",
    "clickup", "clinchpad", "clockify", "cloud66", "cloudant", "cloudbees", "cloudflare",
    "cloudimage", "cloudinary", "cloudplan", "cloudsmith", "cloudtalk", "cloudways", "cloze",
    "clubhouse", "clustdoc", "cockroachdb", "codacy", "codeclimate", "codecov", "codefresh",
    "codeium", "codemagic", "coderabbit", "codeship", "cognitoforms", "cohere", "coinapi",
    "coinbase", "coincap", "coingate", "coingecko", "coinlayer", "coinlib", "coinmarketcap",
    "coinpaprika", "coinpayments", "commercejs", "companyhub", "configcat", "confluence",
    "confluent", "contentful", "contribsys", "conversiontools", "convertapi", "convertkit",
    "convier", "coolify", "corellium", "couchbase", "countrylayer", "covalent", "coveralls",
    "craftmypdf", "cronitor", "crowdin", "crowdsec", "cryptoapis", "cryptocompare", "cryptopanic",
    "cultureamp", "currencybeacon", "currencycloud", "currencyfreaks", "currencylayer",
    "currentsapi", "customerguru", "customerio", "cyberark", "d7network", "dagster", "dailyco",
    "dareboost", "dashlane", "dashscope", "databento", "databricks", "datadog", "datafire",
    "datagov", "datarobot", "datastax", "datocms", "dbnomics", "deadmanssnitch", "debank",
    "debounce", "deepai", "deepgram", "deepinfra", "deepl", "deepnote", "deepseek", "demio",
    "deribit", "descope", "detectlanguage", "devcycle", "deviantart", "dfuse", "dgraph", "dialpad",
    "diffbot", "digicert", "digitalocean", "discord", "disqus", "dnsmadeeasy", "dockerhub",
    "docsend", "docspring", "docuseal", "docusign", "doppler", "dovico", "dronahq", "droneci",
    "dropbox", "dropboxsign", "duffel", "duply", "dwolla", "dynadot", "dynatrace", "dyspatch",
    "eagleeyenetworks", "easyinsight", "easypost", "ecostruxureit", "edamam", "egnyte",
    "elasticemail", "elevenlabs", "emailoctopus", "env0", "eodhd", "eodhistoricaldata", "espocrm",
    "etherscan", "ethplorer", "etsy", "eventbrite", "everhour", "evernote", "exaai",
    "exchangeratesapi", "exoscale", "expedia", "facebook", "faceplusplus", "fakejson", "falai",
    "fastly", "fastspring", "fathom", "faunadb", "featurebase", "feedier", "fetchrss", "fibery",
    "figma", "figment", "financialmodelingprep", "findl", "finicity", "finnhub", "firecrawl",
    "fitbit", "fivetran", "flagsmith", "flatio", "fleetbase", "flespi", "flickr", "flightapi",
    "flightaware", "flightlabs", "flightstats", "flowflu", "flutterwave", "fmfw", "fofa", "forgejo",
    "formbucket", "formcraft", "formsite", "formstack", "fortanix", "fossa", "foursquare",
    "freeagent", "freecodecamp", "freemius", "freshbooks", "freshchat", "freshdesk", "freshping",
    "freshsales", "freshworks", "ftmscan", "fullcontact", "fullhunt", "fullstory", "fusebill",
    "fusionauth", "gateio", "gcore", "geckoboard", "gemfury", "geoapify", "geocodio", "geoip",
    "geoipify", "gerrit", "getblock", "getemail", "getgeoapi", "getgist", "getsandbox", "giphy",
    "gitbook", "gitea", "gitguardian", "gitter", "gladia", "glassnode", "gocanvas", "gocardless",
    "godaddy", "gogs", "goodday", "gorgias", "gotify", "gotomeeting", "grafana", "graphcms",
    "graphhopper", "greptile", "greynoise", "groovehq", "growthbook", "grubhub", "gtmetrix",
    "gumroad", "gusto", "gyazo", "hackerone", "hasura", "helicone", "helius", "hellosign",
    "helpcrunch", "helpscout", "hereapi", "hereapp", "heroku", "hetrixtools", "hetzner", "hibob",
    "highlevel", "hightouch", "hiveage", "holidayapi", "honeybadger", "honeycomb", "hookdeck",
    "hopin", "hostaway", "hotjar", "html2pdf", "hubspot", "huggingface", "humanloop", "hunterhow",
    "hunyuan", "huobi", "hybiscus", "hybridanalysis", "hygraph", "hyperpay", "hypertrack",
    "hypixel", "ibmcloud", "ideogram", "iexapis", "iexcloud", "igdb", "imagekit", "imgbb", "imgix",
    "imgur", "infisical", "influxdb", "infobip", "infura", "inngest", "instabot", "instacart",
    "instagram", "instamojo", "integromat", "intercom", "interseller", "intezer", "invoiced",
    "invoiceninja", "invoiceocean", "ipapi", "ipdata", "ipifi", "ipify", "ipinfo", "ipquality",
    "ipstack", "iterable", "jellyfin", "jenkins", "jetbrains", "jfrog", "jira", "joesandbox",
    "jotform", "jsonbin", "jumpcloud", "jumpseller", "jupiterone", "juro", "kagi", "kaiko",
    "kaleyra", "kanbantool", "kaspr", "katalon", "kayak", "keenio", "keycdn", "keycloak", "keygen",
    "kickbox", "kickofflabs", "kimi", "klarna", "klaviyo", "klipfolio", "knapsackpro", "koyeb",
    "kraken", "kucoin", "kylas", "lakera", "langchain", "langfuse", "langsmith", "larksuite",
    "lastpass", "launchdarkly", "leadfeeder", "leakix", "leanplum", "lemlist", "lemonsqueezy",
    "lendflow", "lepton", "lessannoyingcrm", "lexigram", "lightstep", "linear", "linkedin",
    "linode", "litellm", "lithic", "liveagent", "livechat", "livekit", "llamaindex", "loadimpact",
    "loadmill", "lob", "logdna", "logflare", "loggly", "loginradius", "logrocket", "logtail",
    "logz", "logzio", "lokalise", "looker", "loqate", "loyverse", "lumigo", "lunchmoney", "luno",
    "lyft", "madkudu", "magicbell", "mailboxlayer", "mailchimp", "mailcow", "mailerlite", "mailgun",
    "mailjet", "mailmodo", "mailsac", "mailslurp", "mailtrap", "majestic", "mandrill", "mapbox",
    "mapillary", "mapmyindia", "mapotempo", "mapquest", "mapsapi", "mapsindoors", "maptiler",
    "marqeta", "matomo", "mattermost", "mavenlink", "maxmind", "meaningcloud", "mediastack",
    "meilisearch", "meistertask", "meraki", "mercadopago", "mesibo", "messagebird", "metaapi",
    "metadefender", "mexc", "mezmo", "milvus", "mindbody", "mindmeister", "mintlify", "mixcloud",
    "mixmax", "mixpanel", "mockaroo", "mollie", "mongodbatlas", "monkeylearn", "monnify",
    "moonclerk", "moonpay", "moonshot", "moosend", "moralis", "motherduck", "mouseflow",
    "mrticktock", "mulesoft", "musixmatch", "myfatoorah", "myfreshworks", "nebius", "neo4j",
    "netbox", "netcore", "nethunt", "netlify", "netskope", "netsuite", "neutrinoapi", "neverbounce",
    "newrelic", "newsapi", "newsdata", "nexmo", "nextcloud", "nftport", "ngrok", "nicereply",
    "nightfall", "nodereal", "nomic", "nordigen", "northflank", "novita", "nowpayments", "nozbe",
    "nozbeteams", "nylas", "nypl", "nytimes", "oanda", "odoo", "okta", "omdb", "omdbapi", "omise",
    "omnisend", "onedesk", "oneinch", "onelogin", "onepagecrm", "onfleet", "onwater", "onyphe",
    "oopspam", "opencage", "opencagedata", "openfigi", "opengraphr", "opennode", "openphone",
    "openpipe", "openweather", "openweathermap", "opsgenie", "opswat", "optimismscan", "optimizely",
    "outscraper", "overloop", "ovh", "owlbot", "oxylabs", "packagecloud", "packagist", "pagarme",
    "pagerduty", "paloalto", "pandadoc", "pandascore", "paperspace", "papertrail", "paralleldots",
    "parsehub", "passbase", "pastebin", "patreon", "paychex", "paydirt", "paydirtapp", "payfast",
    "paylocity", "paymo", "paymoapp", "paymongo", "payoneer", "paypal", "paystack", "payu",
    "pcloud", "pdflayer", "pdfshift", "peopledatalabs", "pepipost", "personio", "pexels",
    "photoroom", "pinata", "pinecone", "pingdom", "pipedream", "pipedrive", "pipefy", "pirsch",
    "pixabay", "plaid", "planview", "planviewleankit", "planyo", "plausible", "plivo", "podio",
    "pollsapi", "poloniex", "polygonio", "polygonscan", "polyswarm", "portkey", "postageapp",
    "posthog", "postmark", "postmates", "powrbot", "prerender", "printful", "printify", "printnode",
    "prismic", "privateai", "procore", "prodpad", "productboard", "productplan", "proget",
    "propelauth", "proxycrawl", "pubmatic", "pubnub", "pulumi", "pushbullet", "pusher", "pushover",
    "pushwoosh", "pyowm", "pyxis", "qase", "qdrant", "qonto", "qualtrics", "qualys", "quandl",
    "qubole", "quickbooks", "quickbooksonline", "quicknode", "qwen", "railway", "rapid7",
    "rapidapi", "rapidsms", "rapyd", "ravelry", "rawg", "raygun", "razorpay", "reachmail",
    "readwise", "reallysimplesystems", "rebrickable", "recaptcha", "recurly", "redash", "redislabs",
    "redmine", "relic", "rentman", "repairshopr", "replyio", "requestfinance", "restpack", "retool",
    "revenuecat", "revolut", "ringcentral", "ringover", "ritekit", "roboflow", "rocketchat",
    "rocketreach", "rollbar", "route4me", "rownd", "rubygems", "rudderstack", "runpod", "runrunit",
    "runscope", "sageone", "saleor", "salesblink", "salesflare", "salesforce", "salesloft",
    "salesmate", "sambanova", "samsara", "satismeter", "saucelabs", "savvycal", "scaleway",
    "scrapeowl", "scraperapi", "scraperbox", "scrapfly", "scrapingant", "scrapingbee",
    "scrapingdog", "screenshotapi", "screenshotlayer", "scrutinizer", "selectpdf", "sellfy",
    "semaphoreci", "sematext", "semgrep", "semrush", "sendbird", "sendblue", "sendfox", "sendgrid",
    "sendinblue", "sendpulse", "sentry", "serpapi", "serper", "serphouse", "serpstack", "serpstat",
    "servicenow", "sftpgo", "sheety", "sherpadesk", "shipday", "shipengine", "shippo", "shodan",
    "shopee", "shopify", "shutterstock", "sightengine", "signable", "signalwire", "signeasy",
    "signnow", "signupgenius", "sigopt", "siliconflow", "simfin", "similarweb", "simplesat",
    "simplybook", "simplynoted", "simvoly", "sirv", "sitejet", "siteleaf", "sketchfab", "skrapp",
    "smartlook", "smartsheet", "smartsheets", "smooch", "smsapi", "smtp2go", "snipcart", "snipeit",
    "snovio", "snowflake", "snowplow", "snowtrace", "snyk", "socketlabs", "socrata", "socure",
    "softlayer", "solarwinds", "solscan", "sonar", "sonarcloud", "sonarqube", "sonarr", "sonatype",
    "songkick", "soundcloud", "sourcegraph", "sourcehut", "spacelift", "sparkpost", "sparkpostmail",
    "spectralops", "speechtext", "spiget", "splitio", "splitwise", "splunk", "spoonacular",
    "sportmonks", "sportradar", "sportsmonk", "spotify", "spotinst", "spyfu", "spyse", "sqreen",
    "squarespace", "srcclr", "sslmate", "stabilityai", "stackhawk", "stathat", "statuscake",
    "statusgator", "statuspage", "statuspal", "steamgriddb", "stepfun", "stockdata", "stocktwits",
    "stormboard", "stormglass", "stormpath", "storyblok", "storychief", "strapi", "strava",
    "streamlabs", "stytch", "subscan", "sumo", "sumologic", "supabase", "supernotes", "supportbee",
    "surveybot", "surveymonkey", "surveysparrow", "survicate", "svix", "swaggerhub", "swiftype",
    "tailscale", "talend", "tatumio", "tavily", "taxjar", "teamgate", "teamwork", "teamworkcrm",
    "teamworkdesk", "technicalanalysisapi", "tefter", "telegram", "telesign", "teletype", "telnyx",
    "testingbot", "text2data", "textanywhere", "textlocal", "textmagic", "textrazor", "themoviedb",
    "thenewsapi", "theoddsapi", "thingsboard", "thingspeak", "thinkific", "thirdweb",
    "thousandeyes", "ticketmaster", "ticktick", "tidbcloud", "tigrisdata", "tiingo", "tiktok",
    "timecamp", "timezoneapi", "tinybird", "tmdb", "tmetric", "todoist", "todoistapi", "toggl",
    "tolgee", "tomtom", "tradier", "tradovate", "transifex", "travelpayouts", "travelport",
    "travis", "travisci", "trello", "tumblr", "turso", "tvmaze", "twelvedata", "twilio",
    "twilioflex", "twitch", "twitchapi", "twitter", "tyntec", "typeform", "typekit", "typesense",
    "typetalk", "ubereats", "ubidots", "ubiquiti", "umami", "unitybuild", "unplu", "unsplash",
    "upcloud", "updown", "uplead", "uploadcare", "uploadthing", "uproc", "upstash", "uptimekuma",
    "uptimerobot", "upwave", "urlscan", "usersnap", "vagrantcloud", "vapi", "vatlayer", "vbout",
    "vectara", "veracode", "vercel", "verifalia", "verimail", "veriphone", "viewneo", "vimeo",
    "virustotal", "voiceflow", "voicegain", "voilanorbert", "volcengine", "vonage", "vonagevideo",
    "voodoosms", "vouchery", "voyageai", "vpnapi", "vultr", "vyte", "wakatime", "walkscore",
    "wallarm", "wandb", "wasabi", "waveapps", "wazuh", "weatherapi", "weatherbit", "webex",
    "webexbot", "webflow", "weblate", "webscraper", "webscraping", "websitepulse", "wechat",
    "weglot", "weightsandbiases", "wepay", "whoisxml", "whoisxmlapi", "whoxy", "wistia",
    "wistiaapi", "wompi", "woocommerce", "woodpecker", "workable", "workato", "workday", "workos",
    "worksnaps", "workstack", "worldcoinindex", "worldweather", "worldweatheronline", "wpengine",
    "wrike", "wufoo", "xata", "xendit", "xero", "xray", "xsolla", "yandex", "yelp", "yelpfusion",
    "ynab", "yodlee", "youneedabudget", "yousign", "youtrack", "youtube", "yugabyte", "zapier",
    "zapierapi", "zeabur", "zendesk", "zenduty", "zenkit", "zenrows", "zenrowsapi", "zenscrape",
    "zenserp", "zeplin", "zerobounce", "zeroex", "zerotier", "zhipu", "zilliz", "zillow", "zipapi",
    "zipbooks", "zipcodeapi", "zipcodebase", "zitadel", "zoho", "zohobooks", "zonka", "zoomeye",
    "zoominfo", "zoomus", "zopim", "zulip", "zuora", "zuplo",
];

#[rustfmt::skip]
const QUIET: &[&str] = &[
    "algorithmia", "alpaca", "anthropic", "apiflash", "appcenter", "appdynamics", "appfollow",
    "appoptics", "artsy", "aviationstack", "aylien", "azure", "bandsintown", "baremetrics",
    "bitwarden", "blocknative", "bytescale", "campayn", "chainstack", "checkly", "cloudconvert",
    "cloudmersive", "cloverly", "contentstack", "convex", "coursera", "crowdstrike",
    "currencyscoop", "dailymotion", "databox", "deezer", "deno", "detectify", "directus", "discogs",
    "dnsimple", "documenso", "documo", "doordash", "dotdigital", "dropcontact", "dynalist", "ebay",
    "edenai", "elasticsearch", "enablex", "enormail", "exchangerateapi", "extractorapi", "facepp",
    "fastforex", "filestack", "fireblocks", "fixerio", "flexport", "freshcaller", "freshservice",
    "frontapp", "geocodify", "getaddress", "getresponse", "getstream", "github", "gitlab", "google",
    "guardianapi", "happyscribe", "healthchecks", "hostinger", "hunterio", "hyperbrowser",
    "iconfinder", "imagga", "incidentio", "inoreader", "insightly", "intrinio", "ip2location",
    "ipgeolocation", "ipqualityscore", "ipregistry", "judgeme", "kentik", "kinde", "kontent",
    "lambdatest", "lastfm", "linenotify", "linkpreview", "livestorm", "locationiq", "mailersend",
    "marketo", "marketstack", "mastodon", "medium", "metabase", "mistral", "mparticle", "nasdaq",
    "newscatcher", "notion", "numverify", "nutritionix", "onesignal", "onfido", "openai",
    "openproject", "openrouter", "openrouteservice", "opensea", "openuv", "paperform",
    "papertrailapp", "parseur", "partnerstack", "pendo", "perplexity", "pinterest",
    "pivotaltracker", "plesk", "poeditor", "portainer", "positionstack", "postgrid", "quaderno",
    "qualaroo", "raindropio", "rebrandly", "refersion", "replicate", "rippling", "rockset",
    "rootly", "scaleai", "scalr", "scrapestack", "seatable", "securitytrails", "sendgridapi",
    "sendowl", "setlistfm", "shipstation", "shortio", "shotstack", "signaturit", "sinch",
    "siteground", "skybiometry", "slack", "smartling", "smartystreets", "speechmatics",
    "speechtextai", "statsig", "steam", "stedi", "stitchdata", "storecove", "stripe", "stripo",
    "sugester", "synthesia", "tableau", "tallyfy", "teamviewer", "telestream", "tenable",
    "tenderly", "testrail", "tickettailor", "timezonedb", "tomorrowio", "transferwise",
    "transloadit", "treasuredata", "truelayer", "uclassify", "upcdatabase", "userflow", "userstack",
    "veriff", "versioneye", "visualcrossing", "walletconnect", "weatherstack", "weaviate",
    "whatsapp", "wordpress", "wunderground", "yahoo",
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
