"""Signs URLs with Google's Python library, for comparison with ours.

Reads from standard input a JSON object {key_file, endpoint, requests: [{bucket, object, seconds, date, disposition}]}
and prints a JSON array of URLs in the same order. `date` is the X-Goog-Date of our URL: the library's clock is set to
it. It would sign the port of an endpoint, where Google's test vectors and the Rust library sign the host alone (on 443
there is no difference), so it is given the host. Works offline; reads nothing but the key file, writes nothing but the
array.
"""

import datetime
import json
import sys
import urllib.parse

from google.cloud import storage
from google.cloud.storage import _signing
from google.oauth2 import service_account


def sign(client, endpoint, request):
    instant = datetime.datetime.strptime(request["date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    _signing._NOW = lambda tz=None: instant
    return client.bucket(request["bucket"]).blob(request["object"]).generate_signed_url(
        version="v4",
        method="GET",
        expiration=request["seconds"],
        api_access_endpoint=endpoint,
        response_disposition=request["disposition"],
        headers={"host": urllib.parse.urlparse(endpoint).hostname},
        virtual_hosted_style=False,
    )


def main():
    order = json.load(sys.stdin)
    credentials = service_account.Credentials.from_service_account_file(order["key_file"])
    client = storage.Client(project="maple-dev", credentials=credentials)
    json.dump([sign(client, order["endpoint"], request) for request in order["requests"]], sys.stdout)


if __name__ == "__main__":
    main()
