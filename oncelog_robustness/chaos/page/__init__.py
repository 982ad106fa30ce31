"""The report as one page of HTML with its plots inside: no network, no library, light or dark as its reader likes."""
