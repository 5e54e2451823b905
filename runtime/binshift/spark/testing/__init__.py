"""Tests of users' processors without a cluster; see `binshift.testing`."""
