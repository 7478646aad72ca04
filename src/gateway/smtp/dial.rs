//! The TCP connection to the relay, at whichever of its addresses answers. Nothing has been said yet on it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::SmtpSettings;

/// Connects to the relay by name. The error is for people.
pub(super) async fn dial(settings: &SmtpSettings) -> Result<TcpStream, String> {
    let (host, relay) = (&settings.host, settings.relay());
    let found = tokio::net::lookup_host((host.as_str(), settings.port)).await;
    let addresses: Vec<_> = match found {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(format!("the relay's name {host} is not known: {error}")),
    };
    dial_any(&addresses, settings.connect_timeout).await.map_err(|error| {
        let tried = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match error {
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                format!("connection refused at {relay} ({tried})")
            }
            Some(error) => format!("cannot connect to {relay} ({tried}): {error}"),
            None => format!("the relay's name {host} has no address"),
        }
    })
}

/// Tries each address until one answers: `localhost` may be `::1`, where Postfix may not be. Returns the last error.
async fn dial_any(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, Option<io::Error>> {
    // One deaf address must leave time for the next.
    let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last = None;
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            // Without Nagle's delay: where a message takes two writes it would cost 40 ms.
            Ok(Ok(tcp)) => match tcp.set_nodelay(true) {
                Ok(()) => return Ok(tcp),
                Err(error) => last = Some(error),
            },
            Ok(Err(error)) => last = Some(error),
            Err(_) => last = Some(io::ErrorKind::TimedOut.into()),
        }
    }
    Err(last)
}

/// Addresses that a relay sees our connections come from: for each of its addresses the one of this host that leads
/// there. Sends nothing. Empty where there is no route now.
pub async fn our_addresses(host: &str, port: u16) -> Vec<IpAddr> {
    let mut ours = Vec::new();
    for relay in tokio::net::lookup_host((host, port)).await.into_iter().flatten() {
        ours.extend(our_address(relay).await.ok().filter(|address| !ours.contains(address)));
    }
    ours
}

async fn our_address(relay: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if relay.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(relay).await?;
    Ok(socket.local_addr()?.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn our_address_is_the_one_the_relay_sees() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (client, seen) = tokio::join!(TcpStream::connect(("127.0.0.1", port)), listener.accept());
        client.unwrap();
        assert_eq!(our_addresses("127.0.0.1", port).await, [seen.unwrap().1.ip()]);
        assert!(our_addresses("no.such.host.invalid", port).await.is_empty());
    }

    #[tokio::test]
    async fn the_next_address_is_tried_where_one_is_closed() {
        let bind = || tokio::net::TcpListener::bind("127.0.0.1:0");
        let closed = bind().await.unwrap().local_addr().unwrap();
        let open = bind().await.unwrap();
        let address = open.local_addr().unwrap();
        let found = dial_any(&[closed, address], Duration::from_secs(5)).await.unwrap();
        assert_eq!(found.peer_addr().unwrap(), address);
        assert!(found.nodelay().unwrap());
        let error = dial_any(&[closed], Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::ConnectionRefused));
    }
}
