//! Webhooks: one POST that is tried again while that may help.
//!
//! Promise: every try of one event carries the same id; nothing is tried again that was refused (4xx, but for
//! "too many" and "too slow"), nor, where the other side cannot know a second try from another event, what it may
//! have taken; no redirect is followed, because what it leads to was not asked for; no try and no
//! pause goes beyond the limit. Neither the address nor the secret is in an error: both may be secrets.
//! Start with [`post`].

use std::io;
use std::time::{Duration, Instant};

use berth_api::redact;
use berth_host::clock;
use berth_keeper::notify::Outcome;
use berth_store::killpoint;
use serde_json::json;
use ureq::http::{Request, StatusCode, header};

use super::{Came, Notification, sign};
use crate::config::notify::{Format, Webhook};

/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that is our own idea.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The variable that shortens [`FIRST_PAUSE`] for tests, in milliseconds. Not in release builds.
const PAUSE_VARIABLE: &str = "BERTH_TEST_WEBHOOK_PAUSE_MS";

/// How much of a try's time is for finding the other side and the connection to it, in tenths. Less than all of
/// it, so that a try that never got that far is known as one.
const CONNECT_TENTHS: u32 = 9;

/// What came of one try.
#[derive(PartialEq, Debug)]
enum Tried {
    Done(StatusCode),
    /// Trying again would not help.
    Never(String),
    /// It was not taken. Later it may be; the other side may have said when.
    Later(String, Option<Duration>),
    /// It was sent, and maybe taken.
    Maybe(String),
}

/// Tells a webhook, and tries again until it took it, refused it, or there is no time left.
pub(super) fn post(hook: &Webhook, told: &Notification, until: Instant) -> Came {
    let secret = match hook.secret.as_ref().map(crate::config::notify::Secret::read).transpose() {
        Ok(secret) => secret,
        Err(why) => return Came { tries: 0, ..Came::failed(why) },
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let left = until.saturating_duration_since(Instant::now());
        let (why, asked) = match once(hook, secret.as_deref(), told, hook.timeout.min(left)) {
            Tried::Done(status) => {
                return Came { outcome: Outcome::Sent, detail: status.as_u16().to_string(), tries };
            }
            Tried::Never(why) => return Came { tries, ..Came::failed(why) },
            Tried::Later(why, asked) => (why, asked),
            Tried::Maybe(why) if ignores_a_second(hook.format) => (why, None),
            Tried::Maybe(why) => {
                let what = format!("cannot tell whether it was taken, so it is not sent again: {why}");
                return Came { tries, ..Came::failed(what) };
            }
        };
        let pause = asked.map_or_else(|| pause_after(tries), |asked| asked.max(pause_after(tries)));
        let gave_up = if u64::from(tries) >= hook.tries {
            Some(String::new())
        } else if Instant::now().checked_add(pause).is_none_or(|then| then >= until) {
            Some(asked.map_or(" and the time is up".to_owned(), |asked| {
                format!(" and it asks for a pause of {} s", asked.as_secs())
            }))
        } else {
            None
        };
        if let Some(more) = gave_up {
            return Came { tries, ..Came::failed(format!("gave up: {why}{more}")) };
        }
        std::thread::sleep(pause);
    }
}

/// Whether the other side can know by an id that it was told of this event before.
fn ignores_a_second(format: Format) -> bool {
    match format {
        Format::Json => true,
        Format::Ntfy | Format::Telegram => false,
    }
}

fn once(hook: &Webhook, secret: Option<&str>, told: &Notification, timeout: Duration) -> Tried {
    if timeout.is_zero() {
        return Tried::Never("there is no time left".to_owned());
    }
    let request = match request(hook, secret, told) {
        Ok(request) => request,
        Err(why) => return Tried::Never(why),
    };
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .timeout_resolve(Some(timeout * CONNECT_TENTHS / 10))
        .timeout_connect(Some(timeout * CONNECT_TENTHS / 10))
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("berth/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    match agent.run(request) {
        // The body is of no interest, and may never end.
        Ok(answer) => judge(answer.status(), answer.headers().get(header::RETRY_AFTER)),
        Err(error) => trouble(&error, secret),
    }
}

fn judge(status: StatusCode, retry_after: Option<&header::HeaderValue>) -> Tried {
    let asked = retry_after.and_then(|value| value.to_str().ok()).and_then(pause_asked_for);
    match status.as_u16() {
        200..=299 => Tried::Done(status),
        300..=399 => Tried::Never(format!("it answered {status}; redirects are not followed")),
        // What stands before the other side does not know whether that took it.
        504 => Tried::Maybe(format!("it answered {status}")),
        408 | 429 | 500..=599 => Tried::Later(format!("it answered {status}"), asked),
        _ => Tried::Never(format!("it answered {status}")),
    }
}

fn trouble(error: &ureq::Error, secret: Option<&str>) -> Tried {
    let why = match error {
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            return Tried::Later("no connection in time".to_owned(), None);
        }
        ureq::Error::Timeout(_) => return Tried::Maybe("it did not answer in time".to_owned()),
        ureq::Error::HostNotFound => return Tried::Later("its host is not known".to_owned(), None),
        ureq::Error::ConnectionFailed => return Tried::Later("no connection".to_owned(), None),
        // Only a connection that does not come about is refused.
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Tried::Later("the connection was refused".to_owned(), None);
        }
        ureq::Error::Io(error) => return Tried::Maybe(io_words(error)),
        ureq::Error::Protocol(_) => return Tried::Maybe("it did not answer in HTTP".to_owned()),
        // These would repeat the address.
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "its address is not a valid URL".to_owned(),
        other => other.to_string(),
    };
    let why = secret.map_or(why.clone(), |secret| why.replace(secret, "***"));
    Tried::Never(redact::text(&why))
}

fn io_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the connection was closed without an answer".to_owned()
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "it did not answer in time".to_owned(),
        _ => redact::text(&error.to_string()),
    }
}

/// What is sent, as the service on the other side documents it.
fn request(hook: &Webhook, secret: Option<&str>, told: &Notification) -> Result<Request<Vec<u8>>, String> {
    let address = || "its address is not a valid URL".to_owned();
    let json = "application/json";
    let built = match hook.format {
        Format::Json => {
            let body = told.json();
            let seconds = clock::wall_ms() / 1000;
            let mut request = Request::post(&hook.url)
                .header(header::CONTENT_TYPE, json)
                .header("webhook-id", &told.id)
                .header("webhook-timestamp", seconds);
            if let Some(secret) = secret {
                request =
                    request.header("webhook-signature", sign::signature(secret, &told.id, seconds, &body)?);
            }
            request.body(body)
        }
        // https://docs.ntfy.sh/publish/#publish-as-json: to the root, so that any letter can be in the title.
        Format::Ntfy => {
            let url = hook.url.trim_end_matches('/');
            let (root, topic) = url.rsplit_once('/').ok_or_else(address)?;
            let (priority, tag) =
                if told.what.is_urgent() { (4, "warning") } else { (3, "white_check_mark") };
            let body = json!({
                "topic": topic, "title": told.title, "message": told.lines(), "priority": priority, "tags": [tag],
            });
            let mut request = Request::post(format!("{root}/")).header(header::CONTENT_TYPE, json);
            if let Some(token) = secret {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            request.body(body.to_string().into_bytes())
        }
        // https://core.telegram.org/bots/api#sendmessage: as plain text, so that nothing is taken for markup.
        Format::Telegram => {
            let token = secret.ok_or("Telegram needs the bot's token as `secret`")?;
            let url = format!("{}/bot{token}/sendMessage", hook.url.trim_end_matches('/'));
            let body = json!({
                "chat_id": hook.chat, "text": format!("{}\n{}", told.title, told.lines()),
                "disable_notification": !told.what.is_urgent(), "link_preview_options": { "is_disabled": true },
            });
            Request::post(url).header(header::CONTENT_TYPE, json).body(body.to_string().into_bytes())
        }
    };
    built.map_err(|_| address())
}

/// The pause before the next try: twice as long each time, up to half as long again by chance, so that many
/// who failed together do not come back together.
fn pause_after(tries: u32) -> Duration {
    let first = killpoint::patience(PAUSE_VARIABLE, FIRST_PAUSE);
    let pause = first.saturating_mul(1 << (tries - 1).min(10)).min(LONGEST_PAUSE);
    let mut byte = [0];
    // Without chance it is only less well spread.
    let _ = berth_host::random_bytes(&mut byte);
    pause + pause.mul_f64(f64::from(byte[0]) / 512.0)
}

/// `Retry-After`: seconds, or a date.
fn pause_asked_for(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = jiff::fmt::rfc2822::parse(value).ok()?.timestamp().as_millisecond();
    let now = clock::wall_ms().cast_signed();
    Some(Duration::from_millis(then.saturating_sub(now).max(0).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_somewhere() {
        let pauses: Vec<Duration> = [1, 2, 3, 60].into_iter().map(pause_after).collect();
        assert!(pauses[0] >= FIRST_PAUSE && pauses[0] <= FIRST_PAUSE * 3 / 2, "{pauses:?}");
        assert!(pauses[2] >= FIRST_PAUSE * 4 && pauses[3] <= LONGEST_PAUSE * 3 / 2, "{pauses:?}");
    }

    #[test]
    fn a_pause_may_be_asked_for_in_seconds_or_by_a_date() {
        assert_eq!(pause_asked_for("7"), Some(Duration::from_secs(7)));
        assert_eq!(pause_asked_for("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(pause_asked_for("soon"), None);
    }
}
