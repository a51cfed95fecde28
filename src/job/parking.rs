//! How parked processes sleep and are woken: in the kernel, not in MPI.
//!
//! A process that parks connects to the root of the job and blocks in a read, which uses no processor
//! time. The root wakes it with a message; the end of the connection tells it that the root is gone. On
//! the root's own machine the connection is a Unix socket in the abstract namespace, which leaves no file
//! behind; from another machine it is TCP. Both begin with a secret that travelled through MPI.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixSocketAddr, UnixListener, UnixStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How long one attempt to reach the root at one of its addresses may take.
const CONNECT_TIME_OUT: Duration = Duration::from_secs(5);
/// A message larger than this is none of ours.
const MAX_MESSAGE: u32 = 64 << 20;

/// Where the root waits for those that park.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meeting {
    /// The machine, and network namespace in it, in which the Unix socket can be reached.
    network: String,
    /// Name of the Unix socket in the abstract namespace.
    unix: String,
    /// Where else it can be reached: port, and the addresses to try.
    tcp: Option<(u16, Vec<IpAddr>)>,
    secret: [u8; 16],
}

/// The root's side before anybody has come.
#[derive(Debug)]
pub(super) struct Gate {
    meeting: Meeting,
    unix: UnixListener,
    tcp: Option<TcpListener>,
}

/// One end of a connection between the root and a parked process.
#[derive(Debug)]
pub(super) enum Link {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Gate {
    /// Opens the sockets. `host` is a name under which other machines may know this one; with `remote`,
    /// processes of other machines can come too.
    pub(super) fn open(host: &str, remote: bool) -> io::Result<Self> {
        let mut secret = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let name: String = secret[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let unix = format!("malleus-{}-{name}", std::process::id());
        let listener = UnixListener::bind_addr(&UnixSocketAddr::from_abstract_name(&unix)?)?;
        let tcp = if remote {
            Some(TcpListener::bind(("0.0.0.0", 0))?)
        } else {
            None
        };
        let places = match &tcp {
            Some(tcp) => Some((tcp.local_addr()?.port(), addresses(host))),
            None => None,
        };
        Ok(Self {
            meeting: Meeting {
                network: network(),
                unix,
                tcp: places,
                secret,
            },
            unix: listener,
            tcp,
        })
    }

    pub(super) fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// Waits until these processes have connected, and returns their links in the same order. Calls `progress`
    /// in each turn: they come once MPI has delivered what this process has sent them.
    pub(super) fn admit(
        self,
        expected: &[usize],
        time_out: Duration,
        mut progress: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Vec<Link>> {
        let deadline = Instant::now() + time_out;
        let mut links: Vec<Option<Link>> = expected.iter().map(|_| None).collect();
        self.unix.set_nonblocking(true)?;
        if let Some(tcp) = &self.tcp {
            tcp.set_nonblocking(true)?;
        }
        while links.iter().any(Option::is_none) {
            let Some(link) = self.accept()? else {
                progress()?;
                if Instant::now() > deadline {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "a process that parks did not connect",
                    ));
                }
                std::thread::sleep(Duration::from_micros(200));
                continue;
            };
            // Whoever does not say the secret in time is not one of ours.
            if let Ok((link, rank)) = self.greet(link)
                && let Some(position) = expected.iter().position(|&other| other == rank)
            {
                links[position] = Some(link);
            }
        }
        Ok(links.into_iter().flatten().collect())
    }

    fn accept(&self) -> io::Result<Option<Link>> {
        let none_yet = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionAborted => Ok(None),
            _ => Err(error),
        };
        let link = self
            .unix
            .accept()
            .map(|(stream, _)| Some(Link::Unix(stream)))
            .or_else(none_yet)?;
        match (&self.tcp, link) {
            (Some(tcp), None) => tcp
                .accept()
                .map(|(stream, _)| Some(Link::Tcp(stream)))
                .or_else(none_yet),
            (_, link) => Ok(link),
        }
    }

    fn greet(&self, mut link: Link) -> io::Result<(Link, usize)> {
        link.set_read_time_out(Some(Duration::from_secs(5)))?;
        let (secret, rank): ([u8; 16], usize) =
            link.receive()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if secret != self.meeting.secret {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        link.set_read_time_out(None)?;
        Ok((link, rank))
    }
}

impl Meeting {
    /// Whether a process of another machine could come.
    #[cfg(test)]
    fn without_unix(mut self) -> Self {
        self.network.clear();
        self
    }

    /// Connects to the root as the process with this rank.
    pub(super) fn connect(&self, rank: usize) -> io::Result<Link> {
        let mut link = if self.network == network() {
            Link::Unix(UnixStream::connect_addr(
                &UnixSocketAddr::from_abstract_name(&self.unix)?,
            )?)
        } else {
            Link::Tcp(self.connect_tcp()?)
        };
        link.send(&(self.secret, rank))?;
        Ok(link)
    }

    fn connect_tcp(&self) -> io::Result<TcpStream> {
        let Some((port, hosts)) = &self.tcp else {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the root is on another machine and opened no port",
            ));
        };
        let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the root has no address");
        for &host in hosts {
            match TcpStream::connect_timeout(&SocketAddr::new(host, *port), CONNECT_TIME_OUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Link {
    /// Sends one message.
    pub(super) fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(&text);
        match self {
            Self::Unix(stream) => stream.write_all(&bytes),
            Self::Tcp(stream) => stream.write_all(&bytes),
        }
    }

    /// Sleeps until a message comes; `None` when the other side has closed the connection.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut length = [0; 4];
        match self.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let length = u32::from_le_bytes(length);
        if length > MAX_MESSAGE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; length as usize];
        self.read_exact(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.read_exact(buffer),
            Self::Tcp(stream) => stream.read_exact(buffer),
        }
    }

    fn set_read_time_out(&self, time_out: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(time_out)
            }
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(time_out)
            }
        }
    }
}

/// The machine and network namespace of this process.
fn network() -> String {
    format!("{} {}", machine(), namespace())
}

/// The network namespace of this process.
pub(super) fn namespace() -> String {
    std::fs::read_link("/proc/self/ns/net")
        .unwrap_or_default()
        .display()
        .to_string()
}

/// The machine of this process: its name and when it started, since names alone are reused.
pub(super) fn machine() -> String {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    format!(
        "{} {}",
        read("/proc/sys/kernel/hostname"),
        read("/proc/sys/kernel/random/boot_id")
    )
}

/// The addresses of this machine that others may reach: those of its name, then its interfaces'.
fn addresses(host: &str) -> Vec<IpAddr> {
    // A resolver that hangs must not hold up a resize: the interfaces answer at once.
    let (sender, receiver) = mpsc::channel();
    let name = host.to_owned();
    std::thread::spawn(move || {
        let found: Vec<IpAddr> = (name.as_str(), 0)
            .to_socket_addrs()
            .map(|all| all.map(|one| one.ip()).collect())
            .unwrap_or_default();
        // The receiver may have given up.
        let _ = sender.send(found);
    });
    let named = receiver
        .recv_timeout(Duration::from_secs(1))
        .unwrap_or_default();
    let mut all = Vec::new();
    for address in named.into_iter().chain(interface_addresses()) {
        if !address.is_loopback() && !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// The IPv4 addresses of the interfaces, from the kernel's routing table.
fn interface_addresses() -> Vec<IpAddr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut all = Vec::new();
    let mut candidate = None;
    for line in table.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            candidate = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = candidate.take()
            && !all.contains(&address)
        {
            all.push(address);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakes_through(meeting: Meeting, gate: Gate) {
        let sleepers: Vec<_> = [7, 3]
            .into_iter()
            .map(|rank| {
                let meeting = meeting.clone();
                std::thread::spawn(move || {
                    let mut link = meeting.connect(rank).unwrap();
                    let woken: Option<String> = link.receive().unwrap();
                    let end: Option<String> = link.receive().unwrap();
                    (woken, end)
                })
            })
            .collect();
        let mut links = gate
            .admit(&[3, 7], Duration::from_secs(20), || Ok(()))
            .unwrap();
        links[0].send(&"to 3").unwrap();
        links[1].send(&"to 7").unwrap();
        drop(links);
        let heard: Vec<_> = sleepers
            .into_iter()
            .map(|sleeper| sleeper.join().unwrap())
            .collect();
        assert_eq!(
            heard,
            [
                (Some("to 7".to_owned()), None),
                (Some("to 3".to_owned()), None)
            ]
        );
    }

    #[test]
    fn the_root_wakes_those_of_its_machine_through_a_unix_socket() {
        let gate = Gate::open("localhost", false).unwrap();
        let meeting = gate.meeting().clone();
        wakes_through(meeting, gate);
    }

    #[test]
    fn the_root_wakes_those_of_other_machines_through_tcp() {
        let gate = Gate::open("localhost", true).unwrap();
        let mut meeting = gate.meeting().clone().without_unix();
        meeting.tcp.as_mut().unwrap().1 = vec!["127.0.0.1".parse().unwrap()];
        wakes_through(meeting, gate);
    }

    #[test]
    fn a_stranger_is_not_admitted() {
        let gate = Gate::open("localhost", false).unwrap();
        let mut stranger = gate.meeting().clone();
        stranger.secret[0] ^= 1;
        let _link = stranger.connect(3).unwrap();
        let error = gate
            .admit(&[3], Duration::from_millis(50), || Ok(()))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn interfaces_of_this_machine_are_found() {
        assert!(interface_addresses().iter().any(IpAddr::is_loopback));
    }
}
