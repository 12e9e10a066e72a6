//! HTTP to the hub: redirects followed by hand, because the token belongs to the endpoint's own host alone; every request on a
//! thread of its own, because Ctrl-C must end the program while a server is silent.

use std::cell::Cell;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use qsf_format::printable::message;
use qsf_runtime::progress::Cancel;
use ureq::http::{HeaderMap, Method, Request, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, SendBody};

use super::error::{HubError, Result};
use super::outgoing::Outgoing;
use super::settings::Settings;
use super::trouble::{Trouble, network_trouble};

const USER_AGENT: &str = concat!("qsf-convert/", env!("CARGO_PKG_VERSION"));
/// The hub redirects once or twice; a chain that is longer is a loop.
const MAX_REDIRECTS: usize = 8;
/// Bytes of a body that are handed over at a time, and how many such pieces may wait.
const PIECE: usize = 256 << 10;
const WAITING_PIECES: usize = 4;
/// How often a wait looks whether the user wants to stop.
const POLL: Duration = Duration::from_millis(100);

/// Asks the hub.
pub(super) struct Client<'a> {
    agent: Agent,
    endpoint: String,
    origin: Origin,
    token: Option<String>,
    /// Whether there was an answer yet, whatever it was.
    reached: Cell<bool>,
    cancel: &'a Cancel,
}

/// Scheme, host and port: what a token is valid for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin(String, String, u16);

/// An answer, after redirects; its body is on the way.
pub(super) struct Reply<'a> {
    /// HTTP status.
    pub status: u16,
    /// Where it came from at last, without the query: signatures in it are secrets.
    pub url: String,
    /// Whether that is the endpoint's own host.
    pub own_host: bool,
    /// Identity of the file, without quotes: what the hub says of the file that it redirects to, else the answer's own.
    pub etag: Option<String>,
    /// Size of the file in bytes, where the hub or the answer gives it.
    pub size: Option<u64>,
    headers: HeaderMap,
    body: Receiver<Event>,
    cancel: &'a Cancel,
}

/// What the thread of a request reports, in this order: a head and pieces of a body, or a failure at any place.
enum Event {
    Head(u16, Box<HeaderMap>),
    Piece(Vec<u8>),
    Failed(ureq::Error),
    End,
}

impl<'a> Client<'a> {
    /// A client for the endpoint of `settings`.
    ///
    /// # Errors
    /// When the endpoint is no address, or the file of authorities cannot be used.
    pub fn new(settings: &Settings, cancel: &'a Cancel) -> Result<Client<'a>> {
        let authorities = match &settings.authorities {
            Some(path) => read_authorities(path)?,
            None => RootCerts::WebPki,
        };
        let agent = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(authorities).build())
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(USER_AGENT)
            .timeout_resolve(Some(settings.timeout))
            .timeout_connect(Some(settings.timeout))
            .timeout_per_read(Some(settings.timeout))
            .timeout_per_write(Some(settings.timeout))
            .timeout_recv_response(Some(settings.timeout))
            .build()
            .new_agent();
        let endpoint = settings.endpoint.clone();
        let origin = endpoint.parse().ok().and_then(|uri| Origin::of(&uri));
        let Some(origin) = origin else {
            let expected = "an address such as https://huggingface.co";
            return Err(HubError::Setting { name: "HF_ENDPOINT", expected, found: endpoint });
        };
        let (token, reached) = (settings.token.clone(), Cell::new(false));
        Ok(Client { agent, endpoint, origin, token, reached, cancel })
    }

    /// The address of a path of the hub; the path is encoded already.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.endpoint)
    }

    /// Whether requests to the endpoint carry a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Asks for what a file is, without its content: stops where the hub says it, before the host that stores the file.
    pub fn head(&self, url: &str) -> Result<Reply<'a>, Trouble> {
        self.ask(&Method::HEAD, url, 0, &Outgoing::Nothing, &|| {})
    }

    /// Asks for the content from byte `from` on. Whether the server honours that is in the status: 206 or 200.
    pub fn get(&self, url: &str, from: u64) -> Result<Reply<'a>, Trouble> {
        self.ask(&Method::GET, url, from, &Outgoing::Nothing, &|| {})
    }

    /// Sends something: by POST what is in memory, by PUT what is in a file. `on_wait` is called again and again meanwhile.
    pub fn send(&self, url: &str, outgoing: &Outgoing, on_wait: &dyn Fn()) -> Result<Reply<'a>, Trouble> {
        let method = if matches!(outgoing, Outgoing::Part(_)) { Method::PUT } else { Method::POST };
        self.ask(&method, url, 0, outgoing, on_wait)
    }

    fn ask(
        &self,
        method: &Method,
        url: &str,
        from: u64,
        outgoing: &Outgoing,
        on_wait: &dyn Fn(),
    ) -> Result<Reply<'a>, Trouble> {
        let mut uri = self.parse(url, url)?;
        let (mut etag, mut size) = (None, None);
        for _ in 0..=MAX_REDIRECTS {
            let (status, headers, body) = self.exchange(method, &uri, from, outgoing, on_wait)?;
            let shown = without_query(&uri);
            let own_host = Origin::of(&uri).as_ref() == Some(&self.origin);
            let text =
                |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            if etag.is_none() {
                etag = text("x-linked-etag").map(|e| normalised(&e));
                size = text("x-linked-size").and_then(|s| s.parse().ok()).or(size);
            }
            // What was sent is sent again only where the server says that it is to be (RFC 9110, section 15.4).
            let redirects: &[u16] =
                if outgoing.is_nothing() { &[301, 302, 303, 307, 308] } else { &[307, 308] };
            let target = if redirects.contains(&status) { text("location") } else { None };
            match target {
                Some(target) if !(method == Method::HEAD && etag.is_some() && size.is_some()) => {
                    uri = self.redirect(&uri, &target)?;
                }
                _ => {
                    if status == 200 {
                        size = size.or_else(|| text("content-length").and_then(|s| s.parse().ok()));
                    }
                    let etag = etag.or_else(|| text("etag").map(|e| normalised(&e)));
                    let cancel = self.cancel;
                    return Ok(Reply { status, url: shown, own_host, etag, size, headers, body, cancel });
                }
            }
        }
        let expected = format!("at most {MAX_REDIRECTS} redirects");
        Err(HubError::Response { url: url.to_owned(), expected, found: "more".into() }.into())
    }

    fn parse(&self, url: &str, asked: &str) -> Result<Uri> {
        url.parse::<Uri>().ok().filter(|uri| Origin::of(uri).is_some()).ok_or_else(|| HubError::Response {
            url: asked.to_owned(),
            expected: "an http or https address".into(),
            found: message(url.split('?').next().unwrap_or_default()),
        })
    }

    /// The address that a `Location` header leads to (RFC 9110, section 10.2.2).
    fn redirect(&self, from: &Uri, target: &str) -> Result<Uri> {
        let scheme = from.scheme_str().unwrap_or("https");
        let host = from.authority().map_or("", |authority| authority.as_str());
        let absolute = if target.contains("://") {
            target.to_owned()
        } else if target.starts_with("//") {
            format!("{scheme}:{target}")
        } else if target.starts_with('/') {
            format!("{scheme}://{host}{target}")
        } else {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{host}{folder}/{target}")
        };
        let uri = self.parse(&absolute, &without_query(from))?;
        if scheme == "https" && uri.scheme_str() != Some("https") {
            let found = format!("a redirect to {}", message(without_query(&uri)));
            return Err(HubError::Response { url: without_query(from), expected: "https".into(), found });
        }
        Ok(uri)
    }

    /// One request without redirects.
    fn exchange(
        &self,
        method: &Method,
        uri: &Uri,
        from: u64,
        outgoing: &Outgoing,
        on_wait: &dyn Fn(),
    ) -> Result<(u16, HeaderMap, Receiver<Event>), Trouble> {
        let shown = without_query(uri);
        let mut request = Request::builder().method(method).uri(uri).header("accept-encoding", "identity");
        if from > 0 {
            request = request.header("range", format!("bytes={from}-"));
        }
        if let Some(token) = &self.token
            && Origin::of(uri).as_ref() == Some(&self.origin)
        {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(kind) = outgoing.content_type() {
            request = request.header("content-type", kind).header("accept", kind);
        }
        if let Outgoing::Part(part) = outgoing {
            // Storage hosts refuse what comes in chunks of unknown number.
            request = request.header("content-length", part.bytes);
        }
        let request = request.body(()).map_err(|e| HubError::Response {
            url: shown.clone(),
            expected: "a request that can be sent".into(),
            found: message(e),
        })?;
        let (send, receive) = sync_channel(WAITING_PIECES);
        let agent = self.agent.clone();
        thread::Builder::new()
            .name("hub".into())
            .spawn({
                let outgoing = outgoing.clone();
                move || transfer(&agent, request, outgoing, &send)
            })
            .map_err(|e| HubError::io(shown.as_ref(), "start a thread for", e))?;
        match wait(&receive, self.cancel, on_wait)? {
            Event::Head(status, headers) => {
                self.reached.set(true);
                Ok((status, *headers, receive))
            }
            Event::Failed(error) => Err(network_trouble(&shown, &error, self.reached.get())),
            Event::Piece(_) | Event::End => Err(Trouble::passing(&shown, "no answer")),
        }
    }
}

impl Drop for Client<'_> {
    /// Threads that still wait for a server end now instead of at their timeout.
    fn drop(&mut self) {
        self.agent.clone().shutdown();
    }
}

impl Reply<'_> {
    /// A header, where it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The next piece of the body; `None` at its end.
    pub fn piece(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        match wait(&self.body, self.cancel, &|| {})? {
            Event::Piece(piece) => Ok(Some(piece)),
            Event::End | Event::Head(..) => Ok(None),
            Event::Failed(error) => Err(network_trouble(&self.url, &error, true)),
        }
    }

    /// The whole body, of at most `limit` bytes.
    pub fn body(mut self, limit: usize) -> Result<Vec<u8>, Trouble> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece()? {
            if piece.len() > limit - body.len() {
                let expected = format!("at most {limit} bytes");
                return Err(HubError::Response { url: self.url, expected, found: "more".into() }.into());
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

impl Origin {
    fn of(uri: &Uri) -> Option<Origin> {
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let default = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        Some(Origin(scheme, host, uri.port_u16().unwrap_or(default)))
    }
}

/// The thread of a request. It ends when nobody listens any more.
fn transfer(agent: &Agent, request: Request<()>, outgoing: Outgoing, to: &SyncSender<Event>) {
    let (head, body) = match run(agent, request, outgoing) {
        Ok(response) => response.into_parts(),
        Err(error) => {
            let _nobody_listens = to.send(Event::Failed(error));
            return;
        }
    };
    let mut event = Event::Head(head.status.as_u16(), Box::new(head.headers));
    let mut body = body.into_reader();
    loop {
        let last = matches!(event, Event::End | Event::Failed(_));
        if to.send(event).is_err() || last {
            return;
        }
        let mut piece = vec![0; PIECE];
        event = match body.read(&mut piece) {
            Ok(0) => Event::End,
            Ok(n) => {
                piece.truncate(n);
                Event::Piece(piece)
            }
            Err(error) => Event::Failed(error.into()),
        };
    }
}

/// Sends the request with what goes out.
fn run(
    agent: &Agent,
    request: Request<()>,
    outgoing: Outgoing,
) -> std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error> {
    match outgoing {
        Outgoing::Nothing => agent.run(request),
        Outgoing::Text(text, _) => agent.run(request.map(|()| text)),
        Outgoing::Part(part) => {
            let body = SendBody::from_owned_reader(part.open()?);
            agent.run(request.map(|()| body))
        }
    }
}

/// The next event, or the user's wish to stop. `on_wait` is called while there is none.
fn wait(events: &Receiver<Event>, cancel: &Cancel, on_wait: &dyn Fn()) -> Result<Event> {
    loop {
        if cancel.is_requested() {
            return Err(HubError::Interrupted);
        }
        match events.recv_timeout(POLL) {
            Ok(event) => return Ok(event),
            Err(RecvTimeoutError::Timeout) => on_wait(),
            Err(RecvTimeoutError::Disconnected) => return Ok(Event::End),
        }
    }
}

/// The certificates in a PEM file.
fn read_authorities(path: &Path) -> Result<RootCerts> {
    let text = fs::read(path).map_err(|e| HubError::io(path, "read the certificates in", e))?;
    let certificates: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        let (expected, found) = ("a PEM file with certificates", path.display().to_string());
        return Err(HubError::Setting { name: "SSL_CERT_FILE", expected, found });
    }
    Ok(certificates.into())
}

fn without_query(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("https");
    // What stands before an @ is a password.
    let authority = uri.authority().map_or("", |a| a.as_str().rsplit('@').next().unwrap_or(""));
    format!("{scheme}://{authority}{}", uri.path())
}

/// An entity tag without its quotes and the mark of a weak one (RFC 9110, section 8.8.3).
fn normalised(etag: &str) -> String {
    let etag = etag.trim();
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"').to_owned()
}

/// A part of a path with everything but letters, digits and `-._~` encoded (RFC 3986, section 2); `/` kept where `slashes`.
pub(super) fn encoded(text: &str, slashes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            b'/' if slashes => out.push('/'),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Option<Origin> {
        Origin::of(&url.parse().unwrap())
    }

    #[test]
    fn a_token_is_valid_for_one_scheme_host_and_port() {
        assert_eq!(origin("https://Hub.example/a"), origin("https://hub.example:443/b?c"));
        for other in [
            "http://hub.example",
            "https://hub.example:444",
            "https://hub.example.evil",
            "https://evil/hub.example",
        ] {
            assert_ne!(origin("https://hub.example"), origin(other), "{other}");
        }
        assert_eq!(origin("/path"), None);
    }

    #[test]
    fn secrets_in_an_address_are_not_shown() {
        let uri = "https://user:secret@cdn.example/a/b?X-Signature=secret".parse().unwrap();
        assert_eq!(without_query(&uri), "https://cdn.example/a/b");
    }

    #[test]
    fn names_become_paths() {
        assert_eq!(encoded("refs/pr/1", false), "refs%2Fpr%2F1");
        assert_eq!(encoded("sub/größe #1?.gguf", true), "sub/gr%C3%B6%C3%9Fe%20%231%3F.gguf");
    }

    #[test]
    fn entity_tags_lose_their_quotes() {
        assert_eq!(normalised("W/\"abc\""), "abc");
        assert_eq!(normalised("\"abc\""), "abc");
        assert_eq!(normalised("abc"), "abc");
    }
}
