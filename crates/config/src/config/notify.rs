//! `[notify]`: occasions and channels of notifications.
//!
//! Not here: sending them (see `notify` in the CLI).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::Problem;
use berth_core::{NotificationKind, SafeName};

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::{ConfigValue, TableReader};

/// Limit for webhooks; all of them are called at the same time.
const MAX_WEBHOOKS: usize = 20;
/// Limit for a file with a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 4096;
/// Address of Telegram's bot API.
const TELEGRAM: &str = "https://api.telegram.org";

pub const TABLE: TableSpec = TableSpec {
    path: "notify",
    about: "Tells you that a session needs you, finished or failed, while no client is attached to it, follows its \
            turn or watches it. Nothing is sent until a channel below is configured; `berth notify test` tries them.",
    keys: &[
        KeySpec::new(
            "on",
            ValueKind::Choices(&["needs-you", "failed", "finished"]),
            "Occasions for a notification; `berth run --notify` overrides them for one session",
        )
        .default("needs-you,failed,finished"),
        KeySpec::new(
            "terminal",
            ValueKind::Switch,
            "Ring the bell of the terminals that have the session as their current one, and send them a \
             notification. Its escape sequence goes into the output of any program that runs there",
        )
        .default("false"),
        KeySpec::new(
            "terminal_style",
            ValueKind::Choice(&["auto", "bell", "osc9", "osc777", "both"]),
            "Escape sequence that a terminal gets with the bell: OSC 9 or OSC 777; `auto` guesses from the \
             terminal",
        )
        .default("auto"),
        KeySpec::new("desktop", ValueKind::Switch, "Show a desktop notification, with `notify-send`")
            .default("false"),
        KeySpec::new(
            "command",
            ValueKind::Words,
            "Command to run. It gets the event in variables beginning with BERTH_EVENT_ and as JSON on its \
             standard input. No shell reads it",
        )
        .otherwise("none is run")
        .example("[\"/home/me/bin/tell-me\", \"--loud\"]"),
        KeySpec::new(
            "command_timeout",
            ValueKind::Time,
            "Time limit for the command; then it is killed together with every \
                                                 process that it started",
        )
        .default("10s"),
    ],
};

pub(super) const WEBHOOK: TableSpec = TableSpec {
    path: "notify.webhook",
    about: "A web address that gets each notification. For several addresses, give each a name: \
            [notify.webhooks.NAME].",
    keys: &WEBHOOK_KEYS,
};

pub(super) const WEBHOOKS: TableSpec =
    TableSpec { path: "notify.webhooks.NAME", about: "Webhooks with names, up to 20.", keys: &WEBHOOK_KEYS };

const WEBHOOK_KEYS: [KeySpec; 6] = [
    KeySpec::new(
        "url",
        ValueKind::Text,
        "Address: https://… (http:// is for this machine and your own network). For ntfy it ends with the topic",
    )
    .otherwise("required, except for Telegram")
    .example("\"https://api.telegram.org\"")
    .secret(),
    KeySpec::new("format", ValueKind::Choice(&["json", "ntfy", "telegram"]), "The format that the receiver expects")
        .default("json")
        .example("\"telegram\""),
    KeySpec::new(
        "secret",
        ValueKind::Text,
        "For json the signing key (base64, as `openssl rand -base64 32` prints it), for ntfy the access token, for \
         Telegram the bot's token. `file:/PATH` and `env:NAME` name the place of the secret instead",
    )
    .otherwise("not signed, or no token")
    .example("\"file:/home/me/.config/berth/bot-token\"")
    .secret(),
    KeySpec::new("chat", ValueKind::Text, "Id of the Telegram chat").otherwise("required for Telegram").example("\"123456\""),
    KeySpec::new("timeout", ValueKind::Time, "Timeout of one attempt").default("10s"),
    KeySpec::new("tries", ValueKind::Count(1, 20), "Limit for attempts while the receiver fails")
        .default("5"),
];

/// Settings of `[notify]`.
#[derive(Debug)]
pub struct NotifyConfig {
    /// Occasions that cause a notification.
    pub on: Vec<NotificationKind>,
    pub terminal: bool,
    pub terminal_style: NoticeStyle,
    pub desktop: bool,
    pub command: Option<Vec<String>>,
    pub command_timeout: Duration,
    /// Webhooks by name; the single unnamed one has the empty name.
    pub webhooks: BTreeMap<String, WebhookConfig>,
}

/// Escape sequences of a notification in a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NoticeStyle {
    /// The bell, and the sequence that this terminal probably supports.
    #[default]
    Auto,
    Bell,
    Osc9,
    Osc777,
    Both,
}

impl NoticeStyle {
    const ALL: [Self; 5] = [Self::Auto, Self::Bell, Self::Osc9, Self::Osc777, Self::Both];

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Bell => "bell",
            Self::Osc9 => "osc9",
            Self::Osc777 => "osc777",
            Self::Both => "both",
        }
    }
}

/// One webhook: address, format and credentials.
#[derive(Debug)]
pub struct WebhookConfig {
    pub url: String,
    pub format: WebhookFormat,
    pub secret: Option<SecretSource>,
    /// Id of the Telegram chat; empty for other formats.
    pub chat: String,
    /// Timeout of one attempt.
    pub timeout: Duration,
    pub tries: u64,
}

/// Format of the request to a webhook.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WebhookFormat {
    /// JSON, signed by the Standard Webhooks specification.
    #[default]
    Json,
    Ntfy,
    Telegram,
}

impl WebhookFormat {
    const ALL: [Self; 3] = [Self::Json, Self::Ntfy, Self::Telegram];

    fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Ntfy => "ntfy",
            Self::Telegram => "telegram",
        }
    }
}

/// Place of a secret.
pub enum SecretSource {
    Text(String),
    File(PathBuf),
    Variable(String),
}

impl std::fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(***)"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Variable(name) => write!(f, "Variable({name})"),
        }
    }
}

impl SecretSource {
    /// Parses the place of a secret: the value itself, `file:/PATH`, or `env:NAME`.
    fn parse(text: String) -> Result<Self, &'static str> {
        if let Some(path) = text.strip_prefix("file:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::File(path))
            } else {
                Err("names a file that does not begin with `/`")
            };
        }
        if let Some(name) = text.strip_prefix("env:") {
            let is_name = !name.is_empty() && !name.contains(['=', ' ']);
            return if is_name {
                Ok(Self::Variable(name.to_owned()))
            } else {
                Err("does not name a valid variable")
            };
        }
        Ok(Self::Text(text))
    }

    /// Reads the secret. An error names the place and never the value.
    pub fn read(&self) -> Result<String, String> {
        let (text, place) = match self {
            Self::Text(text) => (text.clone(), "`secret`".to_owned()),
            Self::File(path) => {
                let place = path.display().to_string();
                let mut text = String::new();
                let file = std::fs::File::open(path);
                file.and_then(|file| file.take(MAX_SECRET_BYTES).read_to_string(&mut text))
                    .map_err(|error| format!("cannot read the secret in {place}: {error}"))?;
                (text, place)
            }
            Self::Variable(name) => {
                let text = std::env::var(name);
                (text.map_err(|_| format!("the variable {name} with the secret is not set"))?, name.clone())
            }
        };
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return Err(format!("the secret in {place} is empty or has more than one line"));
        }
        Ok(text.to_owned())
    }
}

impl NotifyConfig {
    pub(crate) fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let mut webhooks = BTreeMap::new();
        let without_name = WebhookConfig::read(keys.table("webhook")?, false)?;
        webhooks.extend(without_name.map(|hook| (String::new(), hook)));
        for (name, inner) in keys.tables("webhooks")? {
            if let Err(bad) = SafeName::parse(&name) {
                return Err(inner.refusal(&format!("`{name}` cannot be a webhook's name: {bad}")));
            }
            if webhooks.len() == MAX_WEBHOOKS {
                return Err(inner.refusal(&format!("there are more than {MAX_WEBHOOKS} webhooks")));
            }
            webhooks.extend(WebhookConfig::read(inner, true)?.map(|hook| (name, hook)));
        }
        let read = Self {
            on: keys.choices("on", &NotificationKind::ALL, NotificationKind::word)?.unwrap_or_default(),
            terminal: keys.switch("terminal")?.unwrap_or_default(),
            terminal_style: keys
                .choice("terminal_style", &NoticeStyle::ALL, NoticeStyle::name)?
                .unwrap_or_default(),
            desktop: keys.switch("desktop")?.unwrap_or_default(),
            command: command(&mut keys)?,
            command_timeout: keys.time("command_timeout")?.unwrap_or_default(),
            webhooks,
        };
        keys.finish()?;
        Ok(read)
    }
}

fn command(keys: &mut TableReader<'_>) -> Result<Option<Vec<String>>, Problem> {
    let Some(ConfigValue { origin, value }) = keys.words("command")? else { return Ok(None) };
    if value.first().is_some_and(String::is_empty) {
        return Err(keys
            .refuse("command", &origin, "begins with an empty word")
            .hint("the first word names a program, the others are given to it"));
    }
    Ok(Some(value).filter(|words| !words.is_empty()))
}

impl WebhookConfig {
    /// Reads one webhook; `None` if it is optional and none of its keys is set.
    fn read(mut keys: TableReader<'_>, is_needed: bool) -> Result<Option<Self>, Problem> {
        let format = keys.choice("format", &WebhookFormat::ALL, WebhookFormat::name)?.unwrap_or_default();
        let url = keys.text("url")?;
        let chat = keys.text("chat")?;
        let secret = keys.text("secret")?;
        let timeout = keys.time("timeout")?.unwrap_or_default();
        let tries = keys.count("tries")?.unwrap_or(1);
        let is_telegram = format == WebhookFormat::Telegram;
        if !is_needed && !is_telegram && url.is_none() && chat.is_none() && secret.is_none() {
            return keys.finish().map(|()| None);
        }
        if is_telegram && (chat.is_none() || secret.is_none()) {
            return Err(keys
                .refusal("Telegram needs `chat`, and the bot's token as `secret`")
                .hint("docs/notifications.md shows how to find both"));
        }
        if let Some(chat) = chat.as_ref().filter(|_| !is_telegram) {
            return Err(keys.refuse("chat", &chat.origin, "is for format = \"telegram\""));
        }
        let secret = match secret {
            Some(ConfigValue { origin, value }) => {
                Some(SecretSource::parse(value).map_err(|what| keys.refuse("secret", &origin, what))?)
            }
            None => None,
        };
        let url = match url {
            Some(ConfigValue { origin, value }) if !is_address(&value) => {
                return Err(keys
                    .refuse("url", &origin, "is not a valid address")
                    .hint("it begins with https:// (or http://) and names a host"));
            }
            Some(url) => url.value,
            None if is_telegram => TELEGRAM.to_owned(),
            None => return Err(keys.refusal("a webhook needs a `url`")),
        };
        keys.finish()?;
        let chat = chat.map(|chat| chat.value).unwrap_or_default();
        Ok(Some(Self { url, format, secret, chat, timeout, tries }))
    }
}

fn is_address(url: &str) -> bool {
    let parsed: Result<http::Uri, _> = url.parse();
    parsed.is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    })
}
