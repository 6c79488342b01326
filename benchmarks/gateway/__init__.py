"""Speed of the gateway, compared with other gateways."""
