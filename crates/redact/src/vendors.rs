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
    "agentops", "agora", "ahrefs", "ai21", "aimlapi", "airbrake", "airbyte", "aircall", "airfocus",
    "airslate", "airtable", "airvisual", "aiven", "akamai", "akeyless", "akismet", "alchemy",
    "alconost", "alegra", "aletheiaapi", "algolia", "alibaba", "alienvault", "aliyun",
    "alphavantage", "amadeus", "ambee", "amberdata", "amplitude", "ankr", "anomali", "anypoint",
    "anyscale", "api2cart", "apideck", "apifonica", "apify", "apigee", "apilayer", "apimatic",
    "apimetrics", "apiscience", "apitemplate", "apollographql", "appcues", "appointedd",
    "appsflyer", "appsignal", "appsynergy", "apptivo", "appveyor", "appwrite", "aqicn", "arangodb",
    "arbiscan", "arcgis", "argocd", "arize", "artifactory", "asaas", "asana", "ashbyhq", "assembla",
    "assemblyai", "astronomer", "atera", "atlassian", "audd", "auth0", "authentik", "authorizenet",
    "authress", "authy", "autodesk", "autoklose", "autopilot", "avalara", "avaza", "axonaut",
    "ayrshare", "azuredevops", "backblaze", "baichuan", "bamboohr", "bannerbear", "barchart",
    "baseapi", "basecamp", "baselime", "basescan", "baseten", "batchdata", "beamer", "beebole",
    "beehiiv", "benzinga", "besnappy", "besttime", "bettermode", "betterstack", "bigcommerce",
    "billomat", "binance", "binaryedge", "bintray", "bitbar", "bitbucket", "bitcoinaverage",
    "bitfinex", "bitget", "bitgo", "bitly", "bitmart", "bitmex", "bitpay", "bitrise", "bitstamp",
    "bittrex", "blablabus", "blackfire", "blazemeter", "blitapp", "blockchair", "blockcypher",
    "blockdaemon", "blockfrost", "blockonomics", "blynk", "bombbomb", "boostnote", "borgbase",
    "botpress", "bowmb", "braintree", "braintrust", "branchio", "brandfetch", "bravesearch",
    "braze", "brevo", "brex", "brightdata", "browserbase", "browserless", "browserstack",
    "browshot", "bscscan", "buddyns", "budibase", "bugcrowd", "bugherd", "bugsnag", "buildbuddy",
    "buildkite", "buildpulse", "bulbul", "bulksms", "bullhorn", "bunnycdn", "buttercms",
    "buttondown", "bybit", "caflou", "calcom", "calendarific", "calendly", "callrail",
    "calorieninja", "campaignmonitor", "cannyio", "capsolver", "capsulecrm", "captaindata",
    "carboninterface", "cartesia", "cashboard", "cashfree", "caspio", "ccloud", "cdn77", "censys",
    "centralstationcrm", "cerebras", "cexio", "chainbase", "chargebee", "chargify", "chartmogul",
    "chatbase", "chatfuel", "chatwork", "checio", "checklyhq", "checkvist", "chilipiper",
    "chronosphere", "circleci", "civo", "clarifai", "clearbit", "clearblade", "clearout",
    "clickatell", "clickhelp", "clickhouse", "clicksend", "clickup", "cliengo", "clinchpad",
    "clockify", "cloud66", "cloudamqp", "cloudant", "cloudbees", "cloudcraft", "cloudflare",
    "cloudhealth", "cloudimage", "cloudinary", "cloudmqtt", "cloudplan", "cloudsight", "cloudsmith",
    "cloudtalk", "cloudways", "cloze", "clubhouse", "clustdoc", "cockroachdb", "codacy",
    "codeclimate", "codecov", "codefresh", "codeium", "codemagic", "codequiry", "coderabbit",
    "coderpad", "codesandbox", "codeship", "codestral", "cognite", "cognitoforms", "cohere",
    "coinapi", "coinbase", "coincap", "coingate", "coingecko", "coinlayer", "coinlib",
    "coinmarketcap", "coinpaprika", "coinpayments", "coinspot", "commercejs", "commercelayer",
    "commercetools", "companyhub", "composio", "conductorone", "configcat", "confluence",
    "confluent", "contentful", "contentsquare", "contribsys", "conversiontools", "convertapi",
    "convertio", "convertkit", "convier", "coolify", "corellium", "coreweave", "couchbase",
    "countrylayer", "covalent", "coveo", "coveralls", "craftmypdf", "cronitor",
    "crossbrowsertesting", "crowdin", "crowdsec", "crunchbase", "cryptoapis", "cryptocompare",
    "cryptopanic", "cryptowatch", "cultureamp", "currencybeacon", "currencycloud", "currencyfreaks",
    "currencylayer", "currentsapi", "customerguru", "customerio", "cyberark", "d7network",
    "dagster", "dailyco", "dareboost", "dashlane", "dashscope", "databento", "databricks",
    "datadog", "datadoghq", "datafire", "dataforseo", "datagov", "datarobot", "datastax", "datocms",
    "dbnomics", "dbtcloud", "deadmanssnitch", "debank", "debounce", "deepai", "deepgram",
    "deepinfra", "deepl", "deepnote", "deepseek", "deepsource", "demio", "deribit", "descope",
    "detectlanguage", "devcycle", "deviantart", "devrev", "dfuse", "dgraph", "dialpad", "diffbot",
    "diggernaut", "digicert", "digikey", "digitalocean", "discord", "disqus", "dnsmadeeasy",
    "dockerhub", "docparser", "docsend", "docspring", "docuseal", "docusign", "doppler", "dovico",
    "drata", "dremio", "dronahq", "droneci", "dropbox", "dropboxsign", "duffel", "duply", "dwolla",
    "dynadot", "dynatrace", "dyspatch", "eagleeyenetworks", "easyinsight", "easypost", "easyship",
    "ecobee", "ecostruxureit", "edamam", "egnyte", "elasticcloud", "elasticemail", "elevenlabs",
    "emailjs", "emailoctopus", "encharge", "env0", "eodhd", "eodhistoricaldata", "espocrm",
    "etherscan", "ethplorer", "etsy", "eventbrite", "everbridge", "everhour", "evernote", "exaai",
    "exchangeratesapi", "exoscale", "expedia", "expensify", "facebook", "faceplusplus", "fakejson",
    "falai", "fastly", "fastspring", "fathom", "faunadb", "featurebase", "fedex", "feedier",
    "fetchrss", "fibery", "figma", "figment", "financialmodelingprep", "findl", "fingerprintjs",
    "finicity", "finnhub", "firecrawl", "fitbit", "fivetran", "flagsmith", "flatio", "fleetbase",
    "flespi", "flickr", "flightapi", "flightaware", "flightlabs", "flightstats", "flodesk",
    "flowflu", "fluidstack", "flutterwave", "flyio", "fmfw", "fofa", "forgejo", "formbucket",
    "formcraft", "formsite", "formstack", "fortanix", "fossa", "foursquare", "foxit", "freeagent",
    "freecodecamp", "freemius", "freepik", "freshbooks", "freshchat", "freshdesk", "freshping",
    "freshsales", "freshworks", "frontegg", "ftmscan", "fullcontact", "fullhunt", "fullstory",
    "fusebill", "fusionauth", "fxmarket", "gainsight", "gateio", "gcore", "geckoboard", "gemfury",
    "geoapify", "geocodio", "geoip", "geoipify", "geonames", "gerrit", "getblock", "getemail",
    "getgeoapi", "getgist", "getsandbox", "ghostinspector", "giantbomb", "giphy", "gitbook",
    "gitea", "gitguardian", "gitkraken", "gitter", "gladia", "glassnode", "gocanvas", "gocardless",
    "godaddy", "gogs", "gooddata", "goodday", "googlemaps", "gorgias", "gotify", "gotomeeting",
    "gptzero", "grafana", "grafanacloud", "graphcms", "graphhopper", "greptile", "greynoise",
    "groovehq", "growsurf", "growthbook", "grubhub", "gtmetrix", "gumroad", "gusto", "gyazo",
    "hackerone", "happyfox", "harvestapp", "hasura", "hcaptcha", "helicone", "helius", "hellosign",
    "helpcrunch", "helpscout", "helpshift", "hereapi", "hereapp", "heroku", "hetrixtools",
    "hetzner", "hevodata", "hibob", "highlevel", "hightouch", "hiveage", "hivemq", "holidayapi",
    "honeybadger", "honeycomb", "hookdeck", "hopin", "hostaway", "hotjar", "hotmart", "html2pdf",
    "hubspot", "hubstaff", "huggingface", "humanloop", "hunterhow", "hunyuan", "huobi", "hybiscus",
    "hybridanalysis", "hygraph", "hyperpay", "hypertrack", "hypixel", "ibmcloud", "ideogram",
    "iexapis", "iexcloud", "ifttt", "igdb", "imagekit", "imgbb", "imgflip", "imgix", "imgur",
    "imperva", "infisical", "influxdb", "infobip", "infura", "inngest", "instabot", "instacart",
    "instagram", "instamojo", "instana", "instapaper", "integromat", "intercom", "interseller",
    "intezer", "invoiced", "invoiceninja", "invoiceocean", "ionos", "ipapi", "ipdata", "ipifi",
    "ipify", "ipinfo", "ipinfodb", "ipquality", "ipstack", "iterable", "jamf", "jellyfin",
    "jenkins", "jetbrains", "jfrog", "jira", "jivosuite", "jobadder", "jobber", "joesandbox",
    "jotform", "jsonbin", "jumpcloud", "jumpseller", "jupiterone", "juro", "jwplayer", "kaggle",
    "kagi", "kaiko", "kaleyra", "kameleoon", "kanbantool", "karmacrm", "kaspr", "katalon", "kayak",
    "keboola", "keenio", "keycdn", "keycloak", "keygen", "kickbox", "kickofflabs", "kimi", "kinsta",
    "kissmetrics", "klarna", "klaviyo", "klipfolio", "knapsackpro", "knowbe4", "kommo", "koyeb",
    "kraken", "krakend", "kucoin", "kustomer", "kylas", "lacework", "lakera", "lalamove",
    "lambdalabs", "lancedb", "langchain", "langfuse", "langsmith", "languagelayer", "larksuite",
    "lastpass", "launchdarkly", "leadfeeder", "leadsquared", "leakix", "leanplum", "lemlist",
    "lemonsqueezy", "lendflow", "lepton", "lessannoyingcrm", "letterboxd", "lexigram", "lightricks",
    "lightstep", "linear", "linkedin", "linkly", "linode", "listrak", "litellm", "lithic",
    "liveagent", "livechat", "livekit", "llamacloud", "llamaindex", "loadimpact", "loadmill", "lob",
    "localytics", "logdna", "logflare", "loggly", "logicmonitor", "loginradius", "logrocket",
    "logsnag", "logtail", "logz", "logzio", "lokalise", "looker", "loqate", "loyverse", "lumaai",
    "lumigo", "luminati", "lunchmoney", "luno", "lyft", "madkudu", "magento", "magicbell",
    "mailboxlayer", "mailchimp", "mailcow", "mailerlite", "mailgun", "mailjet", "mailmodo",
    "mailosaur", "mailsac", "mailslurp", "mailtrap", "mailup", "majestic", "mandrill", "mangopay",
    "manychat", "mapbox", "mapillary", "mapmyindia", "mapotempo", "mapquest", "mapsapi",
    "mapsindoors", "maptiler", "marketcheck", "marqeta", "mastercard", "matomo", "mattermost",
    "mavenlink", "maxmind", "meaningcloud", "mediastack", "medusajs", "meilisearch", "meistertask",
    "meltwater", "mendix", "meraki", "mercadopago", "mesibo", "messagebird", "metaapi",
    "metadefender", "metrilo", "mexc", "mezmo", "milvus", "mindbody", "mindmeister", "minimax",
    "mintlify", "mixcloud", "mixedbread", "mixmax", "mixpanel", "mlflow", "mockaroo", "mollie",
    "mondaycom", "moneybird", "mongodbatlas", "monkeylearn", "monnify", "moodle", "moonclerk",
    "moonpay", "moonshot", "moosend", "moralis", "motherduck", "mouseflow", "mrticktock",
    "mulesoft", "musixmatch", "myfatoorah", "myfreshworks", "myintervals", "nebius", "neo4j",
    "netatmo", "netbox", "netcore", "netdata", "nethunt", "netlify", "netskope", "netsuite",
    "neutrinoapi", "neverbounce", "newrelic", "newsapi", "newsdata", "nexmo", "nextcloud",
    "nftport", "ngrok", "nicereply", "nightfall", "nimblecrm", "nodereal", "nomic", "nordigen",
    "nordvpn", "northflank", "novita", "nowpayments", "nozbe", "nozbeteams", "nuclino",
    "nylas", "nypl", "nytimes", "oanda", "odoo", "okta", "omdb", "omdbapi", "omise", "omnisend",
    "onedesk", "oneinch", "onelogin", "onepagecrm", "onfleet", "onwater", "onyphe", "oopspam",
    "opencage", "opencagedata", "opencorporates", "openfigi", "opengraphr", "opennode",
    "openobserve", "openphone", "openpipe", "openweather", "openweathermap", "opsgenie", "opswat",
    "optimismscan", "optimizely", "oraclecloud", "osano", "outscraper", "overloop", "ovh", "owlbot",
    "oxylabs", "packagecloud", "packagist", "pagarme", "pagerduty", "pagespeed", "paloalto",
    "pandadoc", "pandascore", "paperspace", "papertrail", "paralleldots", "parcellab", "parsehub",
    "passbase", "pastebin", "patreon", "paychex", "paydirt", "paydirtapp", "payfast", "paylocity",
    "paymo", "paymoapp", "paymongo", "payoneer", "paypal", "paystack", "paytm", "paytrace", "payu",
    "pcloud", "pcloudy", "pdflayer", "pdfshift", "peopledatalabs", "pepipost", "perimeterx",
    "personio", "pexels", "photoroom", "pinata", "pinecone", "pingdom", "pingone", "pipedream",
    "pipedrive", "pipefy", "pirsch", "pixabay", "plaid", "planetscale", "planhat", "plantnet",
    "planview", "planviewleankit", "planyo", "plausible", "playht", "plivo", "pocketbase", "podio",
    "pollsapi", "poloniex", "polygonio", "polygonscan", "polymarket", "polyswarm", "portkey",
    "postageapp", "postgrest", "posthog", "postman", "postmark", "postmates", "powerbi", "powrbot",
    "prerender", "printavo", "printful", "printify", "printnode", "prismic", "privateai", "probely",
    "procore", "prodpad", "productboard", "productplan", "proget", "promptlayer", "propelauth",
    "prospectcrm", "protocolsio", "prowly", "proxmox", "proxycrawl", "pubmatic", "pubnub", "pulumi",
    "pushbullet", "pushcut", "pusher", "pushover", "pushwoosh", "pyowm", "pyxis", "qase", "qdrant",
    "qiniu", "qonto", "qovery", "qualtrics", "qualys", "quandl", "qubole", "quickblox",
    "quickbooks", "quickbooksonline", "quicknode", "qwen", "railway", "rakuten", "rapid7",
    "rapidapi", "rapidsms", "rapyd", "ravelry", "rawg", "raygun", "razorpay", "reachmail",
    "readwise", "reallysimplesystems", "rebrickable", "recaptcha", "recombee", "recurly", "redash",
    "redcap", "reddit", "redislabs", "redmine", "refiner", "relevanceai", "relic", "removebg",
    "rentman", "repairshopr", "replit", "replyio", "requestfinance", "restpack", "retool", "revai",
    "revenuecat", "revolut", "rewardful", "ringcentral", "ringover", "ritekit", "robinhood",
    "roblox", "roboflow", "rocketchat", "rocketreach", "rollbar", "route4me", "rownd", "rubrik",
    "rubygems", "rudderstack", "runpod", "runrunit", "runscope", "runwayml", "safaricom", "sageone",
    "sailthru", "saleor", "salesblink", "salescookie", "salesflare", "salesforce", "salesloft",
    "salesmate", "sambanova", "samcart", "samsara", "satismeter", "saucelabs", "savvycal",
    "scalapay", "scaleway", "scrapeowl", "scraperapi", "scraperbox", "scrapfly", "scrapingant",
    "scrapingbee", "scrapingdog", "screenshotapi", "screenshotlayer", "scrutinizer",
    "scrutinizerci", "searchapi", "securonix", "segmentio", "selectpdf", "sellfy", "sellsy",
    "semaphoreci", "sematext", "semgrep", "semrush", "sendbird", "sendblue", "sendcloud", "sendfox",
    "sendgrid", "sendinblue", "sendlane", "sendpulse", "sensibo", "sentinelone", "sentry",
    "serpapi", "serper", "serphouse", "serpstack", "serpstat", "servicenow", "sezzle", "sftpgo",
    "sharefile", "sheety", "sherpadesk", "shipday", "shipengine", "shippo", "shodan", "shopee",
    "shopify", "shopware", "shortpixel", "shutterstock", "sigfox", "sightengine", "signable",
    "signalwire", "signeasy", "signicat", "signnow", "signupgenius", "sigopt", "siliconflow",
    "simfin", "similarweb", "simpleanalytics", "simplecast", "simplesat", "simplybook",
    "simplynoted", "simvoly", "sirv", "sitecore", "sitejet", "siteleaf", "sketchfab", "skrapp",
    "skrappio", "skyscanner", "smartlook", "smartrecruiters", "smartsheet", "smartsheets",
    "smartthings", "smooch", "smsapi", "smtp2go", "smugmug", "snapchat", "snaptrade", "snipcart",
    "snipeit", "snovio", "snowflake", "snowplow", "snowtrace", "snyk", "socketlabs", "socrata",
    "socure", "softlayer", "solarwinds", "solscan", "sonar", "sonarcloud", "sonarqube", "sonarr",
    "sonarsource", "sonatype", "songkick", "soundcloud", "sourcegraph", "sourcehut", "spacelift",
    "sparkpost", "sparkpostmail", "spectralops", "speechify", "speechtext", "spiget", "splashtop",
    "splitio", "splitwise", "splunk", "spoonacular", "sportmonks", "sportradar", "sportsdata",
    "sportsmonk", "spotify", "spotinst", "spyfu", "spyse", "sqreen", "squadcast", "squarespace",
    "squareup", "srcclr", "sslmate", "stabilityai", "stackblitz", "stackhawk", "stackpath",
    "starlink", "stathat", "statuscake", "statusgator", "statuspage", "statuspal", "steamgriddb",
    "steamworks", "stepfun", "stockdata", "stocktwits", "stormboard", "stormglass", "stormpath",
    "storyblok", "storychief", "strapi", "strava", "streamlabs", "streamyard", "stytch",
    "submittable", "subscan", "sugarcrm", "sumo", "sumologic", "supabase", "superfeedr",
    "supernotes", "supportbee", "suprsend", "surveybot", "surveymonkey", "surveysparrow",
    "survicate", "svix", "swaggerhub", "swiftype", "symbl", "synctera", "taboola", "tailscale",
    "talend", "tapfiliate", "tatumio", "tavily", "taxjar", "teachable", "teamcity", "teamgate",
    "teamwork", "teamworkcrm", "teamworkdesk", "technicalanalysisapi", "tefter", "telegram",
    "telesign", "teletype", "telnyx", "tencentcloud", "terraformcloud", "testingbot", "text2data",
    "textanywhere", "textlocal", "textmagic", "textrazor", "themoviedb", "thenewsapi", "theoddsapi",
    "thingsboard", "thingspeak", "thinkific", "thinkst", "thirdweb", "thousandeyes", "threatstack",
    "thycotic", "ticketmaster", "ticktick", "tidbcloud", "tigrisdata", "tiingo", "tiktok",
    "timecamp", "timescaledb", "timezoneapi", "tinybird", "tmdb", "tmetric", "todoist",
    "todoistapi", "togetherai", "toggl", "toggltrack", "tolgee", "tomtom", "tooljet", "traccar",
    "tradier", "tradovate", "transbank", "transifex", "travelpayouts", "travelport", "travis",
    "travisci", "trello", "trendmicro", "tripadvisor", "truecaller", "trustpilot", "tumblr",
    "turso", "tvmaze", "twelvedata", "twilio", "twilioflex", "twingate", "twitch", "twitchapi",
    "twitter", "tyntec", "typeform", "typekit", "typesense", "typetalk", "ubereats", "ubidots",
    "ubiquiti", "ultravox", "umami", "unbounce", "unitybuild", "unplu", "unplugg", "unsplash",
    "upcloud", "updown", "uplead", "uploadcare", "uploadthing", "uproc", "upstash", "uptimekuma",
    "uptimerobot", "upwave", "upwork", "urlscan", "userpilot", "usersnap", "uservoice",
    "vagrantcloud", "vapi", "vatlayer", "vbout", "vectara", "vectorize", "veeva", "veracode",
    "vercel", "verifalia", "verimail", "veriphone", "vidyard", "viewneo", "vimeo", "virtualmin",
    "virustotal", "visma", "vitally", "vnpay", "voiceflow", "voicegain", "voilanorbert",
    "volcengine", "vonage", "vonagevideo", "voodoosms", "vouchery", "voximplant", "voyageai",
    "vpnapi", "vtex", "vtiger", "vultr", "vyte", "wakatime", "walkscore", "wallarm", "walmart",
    "wandb", "wasabi", "waveapps", "wavefront", "wazuh", "weatherapi", "weatherbit", "web3storage",
    "webengage", "webex", "webexbot", "webflow", "webhookrelay", "weblate", "webscraper",
    "webscraping", "websitepulse", "wechat", "weclapp", "weglot", "weightsandbiases", "wepay",
    "whoisxml", "whoisxmlapi", "whoxy", "wildapricot", "wistia", "wistiaapi", "wolfram",
    "wolframalpha", "wompi", "woocommerce", "woodpecker", "workable", "workato", "workday",
    "workfront", "workiva", "workos", "worksnaps", "workstack", "worldcoinindex", "worldweather",
    "worldweatheronline", "wpengine", "wrike", "wufoo", "xata", "xendit", "xero", "xray", "xsolla",
    "yandex", "yelp", "yelpfusion", "yext", "ynab", "yodlee", "yotpo", "youneedabudget", "yousign",
    "youtrack", "youtube", "yugabyte", "zabbix", "zapier", "zapierapi", "zapsign", "zeabur",
    "zendesk", "zenduty", "zenhub", "zenkit", "zenoti", "zenrows", "zenrowsapi", "zenscrape",
    "zenserp", "zeplin", "zerobounce", "zeroex", "zeroheight", "zerossl", "zerotier", "zhipu",
    "zilliz", "zillow", "zipapi", "zipbooks", "zipcodeapi", "zipcodebase", "zitadel", "zoho",
    "zohobooks", "zonka", "zonkafeedback", "zoomeye", "zoominfo", "zoomus", "zopim", "zulip",
    "zuora", "zuplo",
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
