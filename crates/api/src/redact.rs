//! Redaction of secrets in command lines and other texts for people.
//!
//! Promise: a text that looks like a secret, by its name, its neighbour or its shape, is shown as `***`. In doubt it
//! is redacted: one word too many costs a second look, one secret too few stays in a log for ever.
//! Not here: the user's own record (`show --json` returns the command as it was typed), and secrets that look like
//! any other word: `-p hunter2` cannot be told from a port. Which callers get only a redacted command line is decided
//! in [`crate::viewer`].
//! Start with [`redact_command_line`].

/// Text that replaces a secret.
const MASK: &str = "***";

/// Parts of a name that mark it as the name of a secret.
const SECRET_NAMES: [&str; 10] =
    ["key", "token", "secret", "password", "passwd", "passphrase", "credential", "auth", "bearer", "cookie"];
/// Harmless words that contain one of the parts above. `auth` in `authorization` is not harmless.
const HARMLESS_WORDS: [&str; 8] =
    ["author", "keyboard", "keymap", "keyring", "keyword", "monkey", "tokenizer", "tokeniser"];
/// Beginnings of the secrets of well-known services; letters, digits, `-` and `_` follow.
const SECRET_BEGINNINGS: [&str; 30] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "npm_",
    "pypi-",
    "dckr_pat_",
    "hf_",
    "gsk_",
    "xai-",
    "AKIA",
    "ASIA",
    "AIza",
    "dop_v1_",
    "ya29.",
    "SG.",
    "shpat_",
    "whsec_",
    "lin_api_",
    "tskey-",
];
/// Beginning of berth's own tokens; 49 letters and digits follow.
const BERTH_BEGINNING: &str = "berth_";
/// The shortest text after `berth_` that counts as a token: the names of our crates begin with `berth_` as well.
const SHORTEST_BERTH_SECRET: usize = 32;
/// Addresses whose path is the secret: end of the host, and beginning of the path. The rest of the address is redacted.
const SECRET_PATHS: [(&str, &str); 11] = [
    ("hooks.slack.com", "/services/"),
    ("hooks.slack.com", "/workflows/"),
    ("hooks.slack.com", "/triggers/"),
    ("discord.com", "/api/webhooks/"),
    ("discordapp.com", "/api/webhooks/"),
    ("webhook.office.com", "/webhookb2/"),
    ("outlook.office.com", "/webhook/"),
    ("logic.azure.com", "/workflows/"),
    ("hooks.zapier.com", "/hooks/catch/"),
    ("maker.ifttt.com", "/trigger/"),
    ("api.telegram.org", "/bot"),
];
/// Parts of names that mean a secret only if the value looks random.
const WEAK_NAMES: [&str; 6] = ["private", "licen", "salt", "seed", "signature", "access"];
/// The shortest value that can look random.
const SHORTEST_RANDOM: usize = 20;
/// The least entropy of a random value, in bits per letter. Short English text without spaces has fewer than 3.
const LEAST_BITS: f64 = 3.5;
/// Shortest text after one of [`SECRET_BEGINNINGS`] that counts as a secret.
const SHORTEST_SECRET: usize = 8;
/// Words that may stand between a header's name and the secret.
const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "Digest "];

/// A command as one would type it, on one line, with `***` for each secret.
pub fn redact_command_line(argv: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
        if !word.is_empty() && word.replace(MASK, "x").chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    one_line(&redact_words(argv).iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// Name of the variant of an enum, without its contents: `Send` for a request that sends a prompt.
pub fn variant_name(value: &impl std::fmt::Debug) -> String {
    /// Takes letters and fails at any other character, so that the contents are not even formatted.
    struct LettersOnly(String);
    impl std::fmt::Write for LettersOnly {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
            self.0.push_str(&text[..end]);
            if end < text.len() { Err(std::fmt::Error) } else { Ok(()) }
        }
    }
    let mut letters = LettersOnly(String::new());
    let _ = std::fmt::write(&mut letters, format_args!("{value:?}"));
    letters.0
}

/// Redacts a text that is not split into words, such as a script or a title that a program gave itself.
pub fn redact_text(text: &str) -> String {
    one_line(&masked(text, SecretReach::Value))
}

/// The words of a command with `***` for each secret.
pub fn redact_words(argv: &[String]) -> Vec<String> {
    let before = std::iter::once("").chain(argv.iter().map(String::as_str));
    argv.iter().zip(before).map(|(word, before)| mask_word(word, before)).collect()
}

fn mask_word(word: &str, before: &str) -> String {
    let names_secret = is_secret_name(before) || is_webhook(before, word);
    if is_option(before) && !before.contains('=') && names_secret && !is_option(word) {
        return if is_harmless_value(before, word) { word.to_owned() } else { MASK.to_owned() };
    }
    if matches!(before, "-u" | "--user" | "--proxy-user")
        && let Some((user, password)) = word.split_once(':')
        && !password.bytes().all(|byte| byte.is_ascii_digit())
    {
        return format!("{user}:{MASK}");
    }
    let is_script = is_option(before) && !before.starts_with("--") && before.ends_with('c');
    masked(word, if is_script { SecretReach::Value } else { SecretReach::Word })
}

/// Reading of a text: which names in it announce a secret, and where the secret ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretReach {
    /// Redact to the end: the text was one word of the command, spaces included.
    Word,
    /// Redact as far as a value in a script goes.
    Value,
    /// The text is a value. A name in it counts only before `=`, as in the query of an address: a `PATH` contains
    /// directories such as `keys` followed by a colon.
    Setting,
}

fn masked(text: &str, reach: SecretReach) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let run = &rest[..rest.find(|c| !is_name_letter(c)).unwrap_or(rest.len())];
        if run.is_empty() {
            shown.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        }
        let after = &rest[run.len()..];
        let at_start = rest.len() == text.len();
        if run.starts_with("-----BEGIN") {
            // A private key: nothing behind it is worth the risk of showing it.
            return shown + MASK;
        }
        if is_secret(run) {
            shown.push_str(MASK);
            rest = after;
        } else if let Some((between, value)) = value_of(run, after)
            && (reach != SecretReach::Setting || is_setting(&shown, after))
        {
            let whole = at_start && reach == SecretReach::Word;
            let opened = shown.chars().next_back();
            let end = if whole { value.len() } else { end_of(value, opened, between) };
            let masked = if is_harmless_value(run, &value[..end]) { &value[..end] } else { MASK };
            shown.extend([run, between, masked]);
            rest = &value[end..];
        } else if let Some((user, host)) = user_of(run, after) {
            shown.extend([run, "://", user, MASK]);
            rest = host;
        } else if let Some((address, behind)) = secret_path_of(run, after) {
            shown.extend([run, address, MASK]);
            rest = behind;
        } else {
            shown.push_str(run);
            rest = after;
        }
    }
    shown
}

fn is_name_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// True if a name is set to a value: `=` follows the name, and the name begins the text or follows a separator.
fn is_setting(before: &str, after: &str) -> bool {
    let separates = |c: char| c.is_whitespace() || "?&;'\"".contains(c);
    after.starts_with('=') && before.chars().next_back().is_none_or(separates)
}

/// True if the word is written like an option. A secret may begin with a dash as well, but then it has capital
/// letters or digits in it.
fn is_option(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default().trim_start_matches('-');
    word.starts_with('-') && name.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(&byte))
}

/// True if values of this name are secrets.
fn is_secret_name(name: &str) -> bool {
    let mut name = name.to_ascii_lowercase().replace("authoriz", "auth").replace("authoris", "auth");
    for harmless in HARMLESS_WORDS {
        name = name.replace(harmless, "");
    }
    let parts = || name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    let has_part = |part: &str| parts().any(|found| found == part);
    // `PWD` alone is the working directory.
    let is_password = has_part("pass") || (has_part("pwd") && parts().count() > 1);
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
        || is_password
        || ["pat", "dsn", "sig"].iter().any(|part| has_part(part))
        || name.contains("amz-signature")
}

/// True if a variable is a secret: by its name, or by a value that has the shape of a secret or contains one.
pub fn is_secret_variable(name: &str, value: &str) -> bool {
    (is_secret_name(name) && !is_harmless_value(name, value))
        || is_webhook(name, value)
        || is_random_secret(name, value)
        || masked(value, SecretReach::Setting) != value
}

/// True if the value is the address of a webhook. Such an address is a password, whatever service it belongs to.
fn is_webhook(name: &str, value: &str) -> bool {
    name.to_ascii_lowercase().contains("webhook") && value.starts_with("http")
}

/// True if the value looks random and the name is one that some secrets have.
fn is_random_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WEAK_NAMES.iter().any(|weak| name.contains(weak)) && looks_random(value)
}

/// True if a value is long, mixes letters and digits, and does not repeat itself. A path or a sentence does not look
/// random.
fn looks_random(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte);
    let mixes = value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic());
    if value.len() < SHORTEST_RANDOM || value.starts_with('/') || !value.bytes().all(is_plain) || !mixes {
        return false;
    }
    let mut counts = [0_u32; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let bits = counts.iter().filter(|count| **count > 0).map(|count| {
        let share = f64::from(*count) / value.len() as f64;
        -share * share.log2()
    });
    bits.sum::<f64>() >= LEAST_BITS
}

/// True for a number of tokens: language models are given such limits, and they are not secret.
fn is_harmless_value(name: &str, value: &str) -> bool {
    let counts = name.to_ascii_lowercase().ends_with("tokens");
    counts && value.len() < SHORTEST_SECRET && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// True if the text has the shape of a secret, whatever its name.
fn is_secret(run: &str) -> bool {
    let begins =
        |beginning: &&str| run.strip_prefix(*beginning).is_some_and(|rest| rest.len() >= SHORTEST_SECRET);
    // Slack: xoxb-, xoxp-, xapp- and later ones.
    let slack = ["xox", "xapp"].iter().any(|beginning| run.starts_with(beginning)) && run.len() > 12;
    let jwt = run.starts_with("eyJ") && run.matches('.').count() >= 2 && run.len() > 20;
    let of_berth = run.strip_prefix(BERTH_BEGINNING).is_some_and(|rest| {
        rest.len() >= SHORTEST_BERTH_SECRET && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    SECRET_BEGINNINGS.iter().any(begins) || (slack && run.contains('-')) || jwt || of_berth
}

/// For the name of a secret: the text before its value (`=`, `: "`, a space after an option), and the text from the
/// value on.
fn value_of<'t>(name: &str, after: &'t str) -> Option<(&'t str, &'t str)> {
    let is_secret = is_secret_name(name);
    if !is_secret && !name.to_ascii_lowercase().contains("webhook") {
        return None;
    }
    let mut value = after.strip_prefix(['"', '\'']).unwrap_or(after).trim_start();
    match value.strip_prefix([':', '=']) {
        // `token://` is not a header.
        Some(rest) if !rest.starts_with("//") => value = rest.trim_start(),
        None if is_option(name) && after.starts_with(' ') && !is_option(value) => {}
        Some(_) | None => return None,
    }
    value = value.strip_prefix(['"', '\'']).unwrap_or(value);
    let is_scheme =
        |scheme: &&&str| value.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    value = SCHEMES.iter().find(is_scheme).map_or(value, |scheme| &value[scheme.len()..]);
    let is_meant = is_secret || is_webhook(name, value);
    (is_meant && !value.is_empty()).then(|| (&after[..after.len() - value.len()], value))
}

/// Finds the end of a value in a longer text. `opened` is the character before the name: in `-H 'Cookie: a; b'` the
/// value ends with the quote that began before the name.
fn end_of(value: &str, opened: Option<char>, between: &str) -> usize {
    let is_quote = |c: &char| matches!(c, '"' | '\'');
    let inner = between.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ').chars().next_back();
    let outer = opened.filter(|quote| !between.starts_with(*quote));
    let quote = inner.filter(is_quote).or(outer.filter(is_quote));
    let ends = |c: char| match quote {
        Some(quote) => c == quote,
        None => c.is_whitespace() || "\"'`;&|,)}]>".contains(c),
    };
    let mut escaped = false;
    let end = value.find(|c| {
        let here = ends(c) && !escaped;
        escaped = c == '\\' && !escaped;
        here
    });
    end.unwrap_or(value.len())
}

/// For `scheme://user:password@host`: the user with its colon, and the text from the `@` on. A single word before the
/// `@` is redacted for the web, where it is a token, and shown elsewhere, where it is a user.
fn user_of<'t>(scheme: &str, after: &'t str) -> Option<(&'t str, &'t str)> {
    let authority = after.strip_prefix("://")?;
    let end = authority.find(|c: char| c.is_whitespace() || "/?#\"'`<>".contains(c));
    let at = authority[..end.unwrap_or(authority.len())].rfind('@')?;
    let (user, host) = authority.split_at(at);
    match user.find(':') {
        Some(colon) => Some((&user[..=colon], host)),
        None if matches!(scheme, "http" | "https") => Some(("", host)),
        None => None,
    }
}

/// Splits an address whose path is the secret: the address up to the secret, and the text behind the address.
fn secret_path_of<'t>(scheme: &str, after: &'t str) -> Option<(&'t str, &'t str)> {
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let address = after.strip_prefix("://")?;
    let end = address.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(address.len());
    let (host, path) = address[..end].split_at(address[..end].find('/')?);
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let of_host =
        |known: &str| host.strip_suffix(known).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'));
    let (_, begin) = SECRET_PATHS.iter().find(|(known, begin)| of_host(known) && path.starts_with(begin))?;
    let shown = after.len() - address.len() + end - path.len() + begin.len();
    let behind = after.len() - address.len() + end;
    (shown < behind).then(|| (&after[..shown], &after[behind..]))
}

/// Replaces line ends and escape sequences: the text may be chosen by an attacker.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_thing_has_nothing_of_what_is_in_it() {
        assert_eq!(variant_name(&Some("s3cret")), "Some");
        assert_eq!(variant_name(&crate::KeeperRequest::Status), "Status");
        let request = crate::KeeperRequest::Type { text: "s3cret".to_owned(), take: false };
        assert_eq!(variant_name(&request), "Type");
        assert_eq!(variant_name(&"s3cret"), "");
    }

    fn shown(argv: &[&str]) -> String {
        redact_command_line(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_value_of_a_secret_option_is_masked() {
        assert_eq!(
            shown(&["agent", "--api-key", "hunter2", "--port", "80"]),
            "agent --api-key *** --port 80"
        );
        assert_eq!(shown(&["agent", "--token=hunter2"]), "agent --token=***");
        assert_eq!(shown(&["agent", "--password", "two words"]), "agent --password ***");
        assert_eq!(shown(&["agent", "--password=two words; and more"]), "agent --password=***");
        assert_eq!(shown(&["agent", "-token", "-Ab3dashed"]), "agent -token ***");
        assert_eq!(
            shown(&["agent", "--db-pass", "x", "--client_secret", "y"]),
            "agent --db-pass *** --client_secret ***"
        );
    }

    #[test]
    fn an_option_after_a_secret_one_is_an_option() {
        assert_eq!(shown(&["agent", "--no-auth", "--verbose", "-v"]), "agent --no-auth --verbose -v");
        assert_eq!(shown(&["agent", "--auth"]), "agent --auth");
    }

    #[test]
    fn a_variable_with_a_secret_name_is_masked_to_the_end_of_its_word() {
        assert_eq!(shown(&["env", "ANTHROPIC_API_KEY=hunter2", "agent"]), "env ANTHROPIC_API_KEY=*** agent");
        assert_eq!(shown(&["env", "PGPASSWORD=a b&c", "psql"]), "env PGPASSWORD=*** psql");
        assert_eq!(
            shown(&["env", "LANG=C", "GIT_AUTHOR_NAME=Ada", "agent"]),
            "env LANG=C GIT_AUTHOR_NAME=Ada agent"
        );
    }

    #[test]
    fn headers_and_cookies_are_masked_behind_their_scheme() {
        assert_eq!(
            shown(&["curl", "-H", "Authorization: Bearer abc.def", "http://localhost/"]),
            "curl -H 'Authorization: Bearer ***' http://localhost/"
        );
        assert_eq!(shown(&["curl", "-H", "x-api-key:abc"]), "curl -H x-api-key:***");
        assert_eq!(shown(&["curl", "-H", "Cookie: a=b; c=d"]), "curl -H 'Cookie: ***'");
        assert_eq!(shown(&["curl", "-u", "ada:hunter2"]), "curl -u ada:***");
        assert_eq!(shown(&["docker", "run", "-u", "1000:1000"]), "docker run -u 1000:1000");
    }

    #[test]
    fn a_secret_is_known_by_its_shape_wherever_it_stands() {
        for secret in [
            "sk-ant-REDACTED",
            "sk-proj-0123456789",
            "ghp_0123456789abcdefghij0123456789abcdef",
            "github_pat_11ABCDEFG0abcdefghijkl",
            "xoxb-123456789012-abcdefghijkl",
            "AKIAIOSFODNN7EXAMPLE",
            "pypi-AgEIcHlwaS5vcmcCJDAx",
            "SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf",
            "berth_0123456789abcdefghijABCDEFGHIJ0123456789abcdefghi",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        ] {
            assert_eq!(shown(&["agent", secret, "x"]), "agent *** x", "{secret}");
            assert_eq!(shown(&["agent", &format!("--x={secret}")]), "agent --x=***", "{secret}");
            assert_eq!(shown(&["sh", "-c", &format!("run {secret}; ok")]), "sh -c 'run ***; ok'", "{secret}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_masked_and_the_rest_stays() {
        assert_eq!(
            shown(&["git", "clone", "https://ada:hunter2@host/x"]),
            "git clone https://ada:***@host/x"
        );
        assert_eq!(shown(&["psql", "postgres://ada:p@ss@db:5432/x"]), "psql postgres://ada:***@db:5432/x");
        assert_eq!(shown(&["git", "clone", "https://gibberish@host/x"]), "git clone https://***@host/x");
        assert_eq!(shown(&["git", "clone", "ssh://git@host/x"]), "git clone ssh://git@host/x");
        assert_eq!(shown(&["open", "http://localhost:8080/@scope/x"]), "open http://localhost:8080/@scope/x");
        assert_eq!(
            shown(&["open", "http://h/?a=1&access_token=abc&b=2"]),
            "open 'http://h/?a=1&access_token=***&b=2'"
        );
    }

    #[test]
    fn the_path_of_a_webhook_is_masked_and_its_host_stays() {
        assert_eq!(
            shown(&["post", "https://hooks.slack.com/services/T0/B0/xyz", "x"]),
            "post https://hooks.slack.com/services/*** x"
        );
        assert_eq!(
            redact_text("curl 'https://discord.com/api/webhooks/1/abc?wait=1' -d x"),
            "curl 'https://discord.com/api/webhooks/***' -d x"
        );
        assert_eq!(shown(&["post", "https://slack.com/services/x"]), "post https://slack.com/services/x");
        assert_eq!(shown(&["x", "--webhook-url", "https://host/in/abc"]), "x --webhook-url ***");
        assert_eq!(redact_text("webhook: the server answered 500"), "webhook: the server answered 500");
    }

    #[test]
    fn a_variable_is_a_secret_by_its_name_or_by_the_shape_of_its_value() {
        for (name, value) in [
            ("GH_PAT", "x"),
            ("MYSQL_PWD", "x"),
            ("FOO", "ghp_0123456789abcdefghij0123456789abcdef"),
            ("DATABASE_URL", "postgres://ada:hunter2@db/x"),
            ("DATABASE_URL", "jdbc:postgresql://db/x?user=ada&password=hunter2"),
            ("CONNECTION", "host=db user=ada password=hunter2"),
            ("REDIS", "redis://:hunter2@cache:6379"),
            ("SLACK_WEBHOOK_URL", "https://example.org/in/0"),
            ("NOTIFY", "https://hooks.slack.com/services/T0/B0/xyz"),
            ("PEM", "-----BEGIN PRIVATE KEY-----\nMII"),
            ("ACCESS", "Zk3vQ9xT7bL1pW8sR2mN"),
        ] {
            assert!(is_secret_variable(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("PWD", "/home/ada"),
            ("PATH", "/home/ada/.keys:/opt/tokens:/usr/bin"),
            ("DATABASE_URL", "postgres://db/x"),
            ("URL", "https://example.org/services/T0"),
            ("ACCESS", "read-only-for-everybody-here"),
            ("MAX_TOKENS", "4096"),
            ("LANG", "C.UTF-8"),
        ] {
            assert!(!is_secret_variable(name, value), "{name}={value}");
        }
    }

    #[test]
    fn in_a_script_only_the_values_are_masked() {
        assert_eq!(
            shown(&["bash", "-lc", "TOKEN=abc claude --api-key x --model y && echo 'a: b'"]),
            r"bash -lc 'TOKEN=*** claude --api-key *** --model y && echo '\''a: b'\'''"
        );
        assert_eq!(redact_text(r#"{"apiKey": "a b\"c", "port": 1}"#), r#"{"apiKey": "***", "port": 1}"#);
        assert_eq!(redact_text("export PASSWORD='a b' X=1"), "export PASSWORD='***' X=1");
        assert_eq!(redact_text("curl -H 'Cookie: a=b; c=d' x"), "curl -H 'Cookie: ***' x");
        assert_eq!(redact_text("postgres: ada db [local] idle"), "postgres: ada db [local] idle");
        assert_eq!(redact_text("k <<E\n-----BEGIN RSA PRIVATE KEY-----\nMII"), "k <<E ***");
    }

    #[test]
    fn words_that_only_resemble_secrets_are_shown() {
        for line in [
            "agent --max-tokens 4096",
            "agent --max-tokens=4096 --author Ada --keyboard us",
            "vi tests/auth.rs src/token.rs",
            "sk-learn x",
            "agent -p 8080",
        ] {
            assert_eq!(shown(&line.split(' ').collect::<Vec<_>>()), line);
        }
    }

    #[test]
    fn a_line_stays_one_line_and_is_quoted_as_one_would_type_it() {
        assert_eq!(shown(&["a b", "", "it's", "x\ny\x1b[31m", "*"]), r"'a b' '' 'it'\''s' 'x y [31m' '*'");
        assert_eq!(shown(&[]), "");
    }
}
