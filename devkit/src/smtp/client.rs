//! A client that says exactly what a test wants said, for relays that are not scripted.

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

/// One connection; dropping it hangs up.
#[derive(Debug)]
pub struct Client(BufStream<TcpStream>);

impl Client {
    /// Connects to 127.0.0.1 and reads the greeting.
    ///
    /// # Errors
    /// The port refuses connections, or the server says nothing.
    pub async fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut client = Self(BufStream::new(stream));
        client.reply().await?;
        Ok(client)
    }

    /// Sends these bytes as they are.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn say(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).await?;
        Ok(self.0.flush().await?)
    }

    /// A line, and the reply to it.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn command(&mut self, line: &str) -> Result<String> {
        self.say(format!("{line}\r\n").as_bytes()).await?;
        self.reply().await
    }

    /// A message as it is, with lines ended by `\r\n` and dots doubled by the caller, then the dot; its reply.
    ///
    /// # Errors
    /// The connection broke, or DATA was refused.
    pub async fn data(&mut self, message: &[u8]) -> Result<String> {
        let go = self.command("DATA").await?;
        if !go.starts_with("354") {
            bail!("DATA was answered with {go}");
        }
        self.say(message).await?;
        self.command(".").await
    }

    /// Reads one reply, its lines joined by line feeds.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn reply(&mut self) -> Result<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await? == 0 {
                bail!("the relay hung up after {lines:?}");
            }
            let last = line.as_bytes().get(3) != Some(&b'-');
            lines.push(line.trim_end().to_owned());
            if last {
                return Ok(lines.join("\n"));
            }
        }
    }

    /// Sends one mail, from EHLO to QUIT; returns its queue id. `message` has its headers, ends with `\r\n`, and no
    /// line of it starts with a dot.
    ///
    /// # Errors
    /// Something was refused; says what.
    pub async fn submit(&mut self, from: &str, to: &[&str], message: &str) -> Result<String> {
        let mut commands = vec!["EHLO client.test".to_owned(), format!("MAIL FROM:<{from}>")];
        commands.extend(to.iter().map(|recipient| format!("RCPT TO:<{recipient}>")));
        for command in commands {
            let reply = self.command(&command).await?;
            if !reply.starts_with('2') {
                bail!("{command} was answered with {reply}");
            }
        }
        let queued = self.data(message.as_bytes()).await?;
        self.command("QUIT").await?;
        let id = queued.rsplit_once("queued as ").map(|(_, id)| id.to_owned());
        id.with_context(|| format!("the dot was answered with {queued}"))
    }
}

/// Sends one mail by a client of its own; returns its queue id. See [`Client::submit`].
///
/// # Errors
/// The relay refused something; the error says what.
pub async fn submit(port: u16, from: &str, to: &[&str], message: &str) -> Result<String> {
    Client::connect(port).await?.submit(from, to, message).await
}
