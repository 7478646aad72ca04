"""A URL as Google's storage library signs it: what is wanted comes as JSON in the first argument, the URL is printed.

`date` fixes the instant, so that another signer's URL can be compared byte for byte.
"""

import json
import sys
from datetime import timedelta
from unittest import mock

from google.cloud import storage
from google.cloud.storage import _signing
from google.oauth2 import service_account

wanted = json.loads(sys.argv[1])
credentials = service_account.Credentials.from_service_account_file(wanted["key"])
client = storage.Client(project="maple-dev", credentials=credentials)
blob = client.bucket(wanted["bucket"]).blob(wanted["object"])
date = wanted["date"]
instant = _signing.get_v4_now_dtstamps if date is None else lambda: (date, date[:8])
with mock.patch.object(_signing, "get_v4_now_dtstamps", instant):
    print(
        blob.generate_signed_url(
            version="v4",
            expiration=timedelta(seconds=900),
            api_access_endpoint=wanted["endpoint"],
            method=wanted["method"],
            headers=wanted["headers"] or None,
            query_parameters=wanted["query"] or None,
        )
    )
